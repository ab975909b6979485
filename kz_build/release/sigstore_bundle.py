"""Signatures by the identity of a CI: an in-toto statement in DSSE, in a sigstore bundle. The only file that imports sigstore's library."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from kz_build.core.errors import CommandError, ConfigError, Missing, MissingError
from kz_build.core.host import not_installed
from kz_build.release.bundle_form import BadBundleError, require_form, single_times

MOST = 16 << 20
"""Bytes of a bundle at most."""
_PAYLOAD = "application/vnd.in-toto+json"


class Builder(NamedTuple):
    """Who may sign: the identity in the certificate (a workflow's address, an e-mail address), and the issuer that vouches for it."""

    identity: str
    issuer: str


def require() -> None:
    """Raise MissingError without sigstore's library."""
    if importlib.util.find_spec("sigstore") is None:
        why = "it makes and verifies signatures by the identity of a CI"
        raise not_installed("sigstore", why, "sigstore>=4.5,<5")


def require_identity() -> None:
    """Raise MissingError where there is no identity to sign with."""
    require()
    _token()


def sign(statement: bytes, config: Path | None) -> bytes:
    """Return the bundle of a statement, signed by the identity of this CI job. `config`: a client trust configuration of sigstore;
    None is the public instance, in whose log it is entered. Raises MissingError without an identity, CommandError if a server refuses."""
    require()
    token = _token()
    from sigstore.dsse import Statement
    from sigstore.models import ClientTrustConfig
    from sigstore.oidc import IdentityToken
    from sigstore.sign import SigningContext

    text = _read(config)
    try:
        trust = ClientTrustConfig.from_json(text) if config else ClientTrustConfig.production()
        with SigningContext.from_trust_config(trust).signer(IdentityToken(token)) as signer:
            return str(signer.sign_dsse(Statement(statement)).to_json()).encode() + b"\n"
    except Exception as error:  # its clients raise what they like
        raise CommandError(
            f"sigstore did not sign: {_said(error)}",
            hint="its servers and the CI's token are needed: try again, or sign with minisign: kz build --sign KEYFILE",
        ) from error


def _token() -> str:
    from sigstore.oidc import IdentityError, detect_credential

    try:
        token, why = detect_credential(), "no CI that vouches for its jobs runs this"
    except IdentityError as error:
        token, why = None, _said(error)
    if not token:
        ways = "GitHub Actions: permissions: {id-token: write}\nGitLab: id_tokens: {SIGSTORE_ID_TOKEN: {aud: sigstore}}\nwithout CI: kz build --sign KEYFILE"
        raise MissingError((Missing("an identity to sign with", why, ways),))
    return str(token)


class Bundles:
    """Verifies bundles, offline: by the trusted root that sigstore's library ships, or that a configuration names."""

    def __init__(self, builders: Sequence[Builder], config: Path | None) -> None:
        require()
        from sigstore.models import TrustedRoot
        from sigstore.verify import Verifier
        from sigstore_models.trustroot.v1 import TrustedRoot as Root

        self._builders = builders
        try:
            root = json.loads(_read(config))["trustedRoot"] if config else json.loads(shipped_root())
            self._verifier = Verifier(trusted_root=TrustedRoot(Root.from_json(json.dumps(root))))
            self._logs = [log["logId"]["keyId"] for log in root["tlogs"] if "logId" in log]
        except ConfigError:
            raise
        except Exception as error:
            raise ConfigError(f"{config or 'the trusted root'} is no trust configuration: {_said(error)}") from error

    def signed(self, data: bytes) -> tuple[Builder, bytes]:
        """Return who signed, and the statement. Raises BadBundleError."""
        from sigstore.models import Bundle
        from sigstore.verify.policy import Identity

        try:
            bundles = [Bundle.from_json(data)]
            require_form(data, bundles[0].to_json(), self._logs)
            bundles += map(Bundle.from_json, single_times(data))
        except BadBundleError:
            raise
        except Exception as error:  # of anyone's bytes: whatever goes wrong, nothing is proved
            raise BadBundleError(_said(error)) from error
        reasons = []
        for builder in self._builders:
            policy = Identity(identity=builder.identity, issuer=builder.issuer)
            try:
                kind, statement = [self._verifier.verify_dsse(bundle, policy) for bundle in bundles][0]
            except Exception as error:
                reasons.append(_said(error))
                continue
            if kind != _PAYLOAD:
                raise BadBundleError(f"signs {kind}, not {_PAYLOAD}")
            return builder, bytes(statement)
        raise BadBundleError("; ".join(dict.fromkeys(reasons)) or "no builder is named")


def shipped_root(url: str = "https://tuf-repo-cdn.sigstore.dev") -> bytes:
    """Return the trusted root that sigstore's library ships, of the public instance or another. Raises ConfigError.

    The library's public way to it believes, and writes, a cache in the home folder, and tells no log's id. This way is the library's
    own: a later version may have none.
    """
    try:
        from sigstore._utils import read_embedded

        return bytes(read_embedded("trusted_root.json", url))
    except (ImportError, OSError, TypeError) as error:
        from importlib.metadata import version

        raise ConfigError(
            f"sigstore {version('sigstore')} does not give its trusted root as 4.5 does: {_said(error)}",
            hint=f'{sys.executable} -m pip install "sigstore==4.5.*", or name a root: --trust-config FILE',
        ) from error


def _read(config: Path | None) -> str:
    try:
        return config.read_text("utf-8") if config else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{config} cannot be read: {error}", hint="--trust-config is a JSON file") from error


def _said(error: Exception) -> str:
    rows = str(error).strip().splitlines()
    return f"{rows[0]}" if rows else type(error).__name__
