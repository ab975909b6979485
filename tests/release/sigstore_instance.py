"""An instance of sigstore of our own on loopback: a CA with a certificate log (Fulcio), a transparency log (Rekor), and their trusted root.

It does what the public one does for a client, with keys made for one test run, and vouches for everyone who asks: the token says who that is.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://token.actions.githubusercontent.com"
_FULCIO = "1.3.6.1.4.1.57264.1."
_SCT = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_EC = ec.ECDSA(hashes.SHA256())


def workflow(repository: str, ref: str = "refs/heads/main") -> str:
    """The identity that GitHub gives the release workflow of a repository."""
    return f"https://github.com/{repository}/.github/workflows/release.yml@{ref}"


def token(repository: str, issuer: str = ISSUER) -> str:
    """The token of a job of that workflow, as its provider would sign it."""
    import jwt

    now = int(time.time())
    claims = {
        "aud": "sigstore",
        "iss": issuer,
        "sub": f"repo:{repository}:ref:refs/heads/main",
        "iat": now,
        "nbf": now,
        "exp": now + 600,
    }
    return str(jwt.encode({**claims, "repository": repository}, "k" * 32))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def der(key: ec.EllipticCurvePrivateKey) -> bytes:
    return bytes(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


class Instance:
    """The keys, the log and the answers."""

    def __init__(self) -> None:
        self.root, self.middle, self.ct, self.log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(4))
        self.since = datetime.now(timezone.utc) - timedelta(days=1)
        self.root_certificate = self._authority("root", self.root, "root", self.root, 1)
        self.middle_certificate = self._authority("middle", self.middle, "root", self.root, 0)
        self.leaves = [hashlib.sha256(b"\0another entry").digest()]
        self.url = ""

    def _authority(
        self, name: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, depth: int
    ) -> x509.Certificate:
        builder = self._builder(name, issuer, key.public_key(), signer, timedelta(days=3650), self.since)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=depth), critical=True)
        builder = builder.add_extension(_usage(certificates=True), critical=True)
        return builder.sign(signer, hashes.SHA256())

    @staticmethod
    def _builder(
        name: str,
        issuer: str,
        key: ec.EllipticCurvePublicKey,
        signer: ec.EllipticCurvePrivateKey,
        lasts: timedelta,
        since: datetime,
    ) -> x509.CertificateBuilder:
        def named(common: str) -> x509.Name:
            if not common:
                return x509.Name([])
            return x509.Name(
                [
                    x509.NameAttribute(NameOID.ORGANIZATION_NAME, "kz.test"),
                    x509.NameAttribute(NameOID.COMMON_NAME, common),
                ]
            )

        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(issuer))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(since)
            .not_valid_after(since + lasts)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )

    def certificate(self, request: x509.CertificateSigningRequest, claims: Any) -> list[str]:
        """Return the certificate of a job, with the chain above it; its entry in the certificate log is in it."""
        repository = claims["repository"]
        owner = repository.split("/")[0]
        key = request.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        builder = self._builder(
            "", "middle", key, self.middle, timedelta(minutes=10), datetime.now(timezone.utc) - timedelta(seconds=5)
        )
        names = [x509.UniformResourceIdentifier(workflow(repository))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=True)
        builder = builder.add_extension(_usage(certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
        own = {1: claims["iss"], 8: claims["iss"], 9: workflow(repository), 11: "github-hosted", 12: f"https://github.com/{repository}",
               14: "refs/heads/main", 16: f"https://github.com/{owner}", 18: workflow(repository)}  # fmt: skip
        for number, text in own.items():
            # The first ones are bare text, later ones DER's UTF8String.
            value = text.encode() if number < 8 else b"\x0c" + bytes([len(text)]) + text.encode()
            oid = x509.ObjectIdentifier(f"{_FULCIO}{number}")
            builder = builder.add_extension(x509.UnrecognizedExtension(oid, value), critical=False)
        entry = builder.sign(self.middle, hashes.SHA256()).tbs_certificate_bytes
        issuer_id = hashlib.sha256(der(self.middle)).digest()
        at = int(time.time() * 1000)
        signed = struct.pack("!BBQH", 0, 0, at, 1) + issuer_id + len(entry).to_bytes(3, "big") + entry + b"\0\0"
        signature = self.ct.sign(signed, _EC)
        sct = (
            b"\0"
            + hashlib.sha256(der(self.ct)).digest()
            + struct.pack("!QHBBH", at, 0, 4, 3, len(signature))
            + signature
        )
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        octets = b"\x04" + (bytes([len(listed)]) if len(listed) < 128 else b"\x81" + bytes([len(listed)])) + listed
        builder = builder.add_extension(x509.UnrecognizedExtension(_SCT, octets), critical=False)
        chain = (builder.sign(self.middle, hashes.SHA256()), self.middle_certificate, self.root_certificate)
        return [one.public_bytes(Encoding.PEM).decode() for one in chain]

    def entry(self, proposed: Any) -> dict[str, object]:
        """Enter an envelope into the log; return the entry with its promise, its proof and the signed checkpoint."""
        content = proposed["spec"]["proposedContent"]
        envelope = json.loads(content["envelope"])
        payload = base64.b64decode(envelope["payload"])
        digest = {"algorithm": "sha256", "value": hashlib.sha256(payload).hexdigest()}
        whole = {"algorithm": "sha256", "value": hashlib.sha256(content["envelope"].encode()).hexdigest()}
        signatures = [{"signature": envelope["signatures"][0]["sig"], "verifier": content["verifiers"][0]}]
        spec = {"envelopeHash": whole, "payloadHash": digest, "signatures": signatures}
        body = canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        leaf = hashlib.sha256(b"\0" + body).digest()
        root = hashlib.sha256(b"\x01" + self.leaves[0] + leaf).digest()
        key_id = hashlib.sha256(der(self.log)).digest()
        host = self.url.rpartition("/")[2]  # some verifiers look the log up by this name
        note = f"{host} - 1\n2\n{b64(root)}\n"
        checkpoint = f"{note}\n\u2014 {host} {b64(key_id[:4] + self.log.sign(note.encode(), _EC))}\n"
        promised = {"body": b64(body), "integratedTime": int(time.time()), "logID": key_id.hex(), "logIndex": 1}
        proof = {
            "checkpoint": checkpoint,
            "hashes": [self.leaves[0].hex()],
            "logIndex": 1,
            "rootHash": root.hex(),
            "treeSize": 2,
        }
        promise = b64(self.log.sign(canonical(promised), _EC))
        return {"uuid": {**promised, "verification": {"inclusionProof": proof, "signedEntryTimestamp": promise}}}

    @property
    def trusted_root(self) -> dict[str, object]:
        """The keys, as verifiers take them."""
        start = {"start": self.since.isoformat().replace("+00:00", "Z")}

        def log(key: ec.EllipticCurvePrivateKey) -> dict[str, object]:
            public = {"rawBytes": b64(der(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": start}
            return {
                "baseUrl": self.url,
                "hashAlgorithm": "SHA2_256",
                "publicKey": public,
                "logId": {"keyId": b64(hashlib.sha256(der(key)).digest())},
            }

        chain = [
            {"rawBytes": b64(one.public_bytes(Encoding.DER))}
            for one in (self.middle_certificate, self.root_certificate)
        ]
        authority = {
            "subject": {"organization": "kz.test", "commonName": "root"},
            "uri": self.url,
            "certChain": {"certificates": chain},
            "validFor": start,
        }
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [log(self.log)], "certificateAuthorities": [authority], "ctlogs": [log(self.ct)], "timestampAuthorities": [],
        }  # fmt: skip

    @property
    def config(self) -> dict[str, object]:
        """The configuration of a client: the trusted root, and where the servers are."""
        start = {"start": self.since.isoformat().replace("+00:00", "Z")}
        service = {"url": self.url, "majorApiVersion": 1, "validFor": start, "operator": "kz.test"}
        any_one = {"selector": "ANY"}
        signing = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json", "caUrls": [service], "oidcUrls": [service],
            "rekorTlogUrls": [service], "tsaUrls": [], "rekorTlogConfig": any_one, "tsaConfig": any_one,
        }  # fmt: skip
        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self.trusted_root,
            "signingConfig": signing,
        }


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=certificates, crl_sign=certificates, encipher_only=False, decipher_only=False,
    )  # fmt: skip


@contextmanager
def serving() -> Iterator[Instance]:
    """Serve an instance on loopback."""
    import jwt

    instance = Instance()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.startswith("/api/v2/signingCert"):
                claims = jwt.decode(self.headers["Authorization"].split()[1], options={"verify_signature": False})
                request = x509.load_pem_x509_csr(base64.b64decode(sent["certificateSigningRequest"]))
                answer: object = {
                    "signedCertificateEmbeddedSct": {"chain": {"certificates": instance.certificate(request, claims)}}
                }
            else:
                answer = instance.entry(sent)
            data = json.dumps(answer).encode()
            self.send_response(201)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    instance.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield instance
    finally:
        server.shutdown()
        server.server_close()
