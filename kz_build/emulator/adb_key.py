"""adb's keys: RSA, as adb writes its public one to adbkey.pub, and the signature by which it proves the private one. Pure."""

from __future__ import annotations

import base64
import struct

TOKEN_BYTES = 20
"""A token takes the place of a SHA-1 digest in what adb signs."""
_MODULUS_BYTES = 256
_KEY = struct.Struct(f"<II{_MODULUS_BYTES}s{_MODULUS_BYTES}sI")
"""Length of the modulus in words, a constant of Montgomery's, the modulus, another constant, the exponent."""
_SHA1 = bytes.fromhex("3021300906052b0e03021a05000414")


def proves(public_key: str, token: bytes, signature: bytes) -> bool:
    """Tell whether the owner of a public key signed a token (PKCS #1 v1.5). False for what is not a key of adb."""
    try:
        words, _, modulus, _, exponent = _KEY.unpack(base64.b64decode(public_key.split()[0]))
    except (ValueError, IndexError, struct.error):
        return False
    n = int.from_bytes(modulus, "little")
    if words * 4 != _MODULUS_BYTES or len(signature) != _MODULUS_BYTES or exponent < 3 or n < 3:
        return False
    signed = pow(int.from_bytes(signature, "big"), exponent, n).to_bytes(_MODULUS_BYTES, "big")
    end = b"\0" + _SHA1 + token
    return signed == b"\0\1" + b"\xff" * (_MODULUS_BYTES - 2 - len(end)) + end
