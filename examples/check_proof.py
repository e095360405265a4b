"""Check a proof of a ledger's transparency log. The program uses no code of the ledger.

    python check_proof.py PROOF ENTRY LOG_KEY [WITNESS_KEY …]
PROOF is a file with the answer of `GET /v1/events/{id}/proof`. ENTRY is a file with the body that a webhook
delivered. The formats are the standards of C2SP (https://c2sp.org).
"""

import hashlib
import json
import re
import sys
from base64 import b64decode
from base64 import b64encode as encode
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def decode(text: str) -> bytes:
    value = b64decode(text, validate=True)
    require(encode(value).decode() == text, f"{text} is not base64 as the standard writes it")
    return value


def check_signature(text: str, lines: list[str], key: str) -> str:
    """Check that the key `name+id+base64` has signed the text, and return the key's name."""
    name, id, public = key.split("+", 2)
    kind, public = decode(public)[:1], decode(public)[1:]
    require(sha256(name.encode(), b"\n", kind, public)[:4].hex() == id, f"{key} is not a key")
    signed = [decode(line.split(" ")[2]) for line in lines if line.startswith(f"— {name} ")]
    signed = [each[4:] for each in signed if each[:4].hex() == id]
    require(bool(signed), f"{name} has not signed the checkpoint")
    for signature in signed:
        message = text
        if kind == b"\4":  # a signature of a witness begins with the time at which the witness signed
            message = f"cosignature/v1\ntime {int.from_bytes(signature[:8], 'big')}\n{text}"
            signature = signature[8:]
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message.encode())
    return name


def check(proof: str, entry: bytes, log_key: str, witness_keys: list[str]) -> str:
    """Check the proof, and return a sentence about the entry. Raises ValueError or InvalidSignature."""
    require(not re.search(r"[\x00-\x09\x0b-\x1f]", proof), "a line ends in more than a newline")
    require(proof.endswith("\n"), "the last line does not end in a newline")
    head, checkpoint = proof.split("\n\n", 1)
    first, *lines = head.split("\n")
    require(first == "c2sp.org/tlog-proof@v1", "this is not a proof")
    if lines[0].startswith("extra "):  # a salt: the log's entry contains a commitment instead of the body
        event, salt = json.loads(entry), decode(lines.pop(0)[6:])
        shown = {name: event[name] for name in ("created", "id", "livemode", "type")}
        shown["commitment"] = encode(sha256(salt, entry)).decode()
        entry = json.dumps(shown, sort_keys=True, separators=(",", ":")).encode()
    index = int(re.fullmatch("index (0|[1-9][0-9]*)", lines[0])[1])
    path = [decode(line) for line in lines[1:]]
    body, signatures = checkpoint.rsplit("\n\n", 1)
    text, [origin, size, root] = f"{body}\n", body.split("\n")[:3]
    require(origin == log_key.split("+")[0], f"the checkpoint is of {origin}")
    require(re.fullmatch("0|[1-9][0-9]*", size) is not None, f"{size} is not a size")
    names = [check_signature(text, signatures.split("\n"), key) for key in [log_key, *witness_keys]]
    found, at, last = sha256(b"\0", entry), index, int(size) - 1
    require(0 <= index <= last, "the log has no such entry")
    for hash in path:  # the steps of RFC 9162, section 2.1.3.2
        require(last > 0, "the path is too long")
        if at & 1 or at == last:
            found = sha256(b"\1", hash, found)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            found = sha256(b"\1", found, hash)
        at, last = at >> 1, last >> 1
    require(last == 0 and found == decode(root), "the entry is not in the log")
    return f"entry {index} of {size} in {origin}, signed by {', '.join(names)}"


def main(words: list[str]) -> None:
    try:
        proof, entry, *keys = words
        print(check(Path(proof).read_bytes().decode(), Path(entry).read_bytes(), keys[0], keys[1:]))
    except (ValueError, LookupError, TypeError, InvalidSignature) as error:
        sys.exit(f"not proven: {error or 'a signature does not hold'}")


if __name__ == "__main__":
    main(sys.argv[1:])
