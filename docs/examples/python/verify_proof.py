"""Checks proofs of ledgerctl prove: verify_proof.py KEY FILE… reads FILE and FILE.event. Exit status 1: one was refused."""

import base64
import hashlib
import re
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import shown_parts
from shown_parts import need

# Of a proof: index, path, the text of the note with origin, size and root, signatures.
FORM = re.compile(
    r"c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]{0,18})\n((?:[0-9A-Za-z+/]{43}=\n)*)\n"
    r"((.+)\n(0|[1-9][0-9]{0,18})\n(.+)\n)\n((?:\u2014 [^\x00- +\ufffd]+ [0-9A-Za-z+/]{7,}={0,2}\n)+)"
)

def decode(s):  # base64 in its one form
    b = base64.b64decode(s, validate=True)
    need(base64.b64encode(b).decode() == s)
    return b


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def root(h, i, n, path):
    """Climbs from leaf i of n to the root of the tree (RFC 9162, section 2.1.3.2)."""
    need(0 <= i < n)
    path, last = list(path), n - 1
    while last > 0:
        if i & 1 or i < last:
            side = path.pop(0)
            need(len(side) == 32)
            h = sha(b"\1", side, h) if i & 1 else sha(b"\1", h, side)
        i, last = i >> 1, last >> 1
    need(not path)
    return h


def check(key, proof, event):
    name, key_id, public = key.split("+", 2)
    pub = decode(public)
    need(pub[0] == 1 and sha(name.encode() + b"\n", pub)[:4].hex() == key_id)
    index, path, text, origin, size, top, signatures = FORM.fullmatch(proof).groups()
    signed = 0
    for line in signatures[:-1].split("\n"):
        _, who, sig = line.split(" ")
        sig = decode(sig)
        if who == name and sig[:4].hex() == key_id:
            Ed25519PublicKey.from_public_bytes(pub[1:]).verify(sig[4:], text.encode())
            signed += 1
    need(signed == 1 and origin == name)
    e = shown_parts.parse(event)
    header, body = decode(e["header"]), decode(e["body"])
    need(len(body) == 32)
    entry = sha(b"nexus.event.v1\0", header, body)
    need(root(sha(b"\0", entry), int(index), int(size), map(decode, path.split())) == decode(top))
    return shown_parts.check(header, e.get("leaves", []), decode, sha, root)


status = 0  # needs python3-cryptography
if len(sys.argv) < 3:
    sys.exit(__doc__)
for name in sys.argv[2:]:
    try:
        with open(name, encoding="utf-8", newline="") as proof, open(name + ".event", encoding="utf-8", newline="") as event:
            shown = check(sys.argv[1], proof.read(), event.read())
        print(name, "accepted" + shown)
    except Exception:  # also what is cut short
        print(name, "REFUSED")
        status = 1
sys.exit(status)
