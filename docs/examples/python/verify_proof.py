"""Checks proofs of ledgerctl prove: verify_proof.py KEY FILE… reads FILE and FILE.event. Exit status 1: one was refused."""

import base64
import hashlib
import json
import re
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def need(ok):
    if not ok:
        raise ValueError("refused")


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


def parts(b, depth=0, element=False):
    """The byte strings of 32 that are elements of arrays: in leaf 0 of a turn they stand for its parts; and what is behind."""
    need(depth < 16)
    kind, n, b = b[0] >> 5, b[0] & 31, b[1:]
    if n >= 24:
        wide = 1 << (n - 24)
        n, b = int.from_bytes(b[:wide], "big"), b[wide:]
    need(n <= len(b) or kind not in (2, 3, 4, 5))
    out = [b[:n]] if kind == 2 and element and n == 32 else []
    if kind in (2, 3):
        b = b[n:]
    for _ in range(n * (kind - 3) if kind in (4, 5) else 0):
        more, b = parts(b, depth + 1, kind == 4)
        out += more
    return out, b


def check(key, proof, event):
    name, key_id, public = key.split("+", 2)
    pub = decode(public)
    need(pub[0] == 1 and sha(name.encode() + b"\n", pub)[:4].hex() == key_id)
    head, text, signatures = proof.split("\n\n", 2)
    need(signatures.endswith("\n"))
    signed = False
    for line in signatures[:-1].split("\n"):
        dash, who, sig = line.split(" ", 2)
        sig = decode(sig)
        need(dash == "\u2014" and who)
        if who == name and sig[:4].hex() == key_id:
            Ed25519PublicKey.from_public_bytes(pub[1:]).verify(sig[4:], (text + "\n").encode())
            signed = True
    origin, size, top = text.split("\n")
    first, index, *path = head.split("\n")
    need(signed and origin == name and first + index[:6] == "c2sp.org/tlog-proof@v1index ")
    need(all(re.fullmatch("0|[1-9][0-9]{0,18}", n, re.ASCII) for n in (index[6:], size)))
    e = json.loads(event)
    header, body = decode(e["header"]), decode(e["body"])
    need(len(body) == 32)
    entry = sha(b"nexus.event.v1\0", header, body)
    need(root(sha(b"\0", entry), int(index[6:]), int(size), map(decode, path)) == decode(top))
    # The header ends with the commitment, or with that and the sender.
    end = re.search(rb"\x18\x2b\x58\x20(.{32})(\x18\x2c\x78\x38[A-Z2-7]{56})?\Z", header, re.DOTALL)
    leaves = e.get("leaves", [])
    need(len({leaf["leaf"] for leaf in leaves}) == len(leaves) and len({leaf["count"] for leaf in leaves}) < 2)
    for leaf in leaves:
        need(type(leaf["leaf"]) is int)
        salt = decode(leaf["salt"])
        need(len(salt) == 32)
        h = sha(b"\0", salt, decode(leaf["bytes"]))
        need(root(h, leaf["leaf"], leaf["count"], map(decode, leaf.get("path") or [])) == end[1])
        leaf["hash"] = h
    for leaf in leaves:  # leaf 0 says how many parts there are, and where each is
        if leaf["leaf"] == 0 and leaf["count"] > 1:
            places, rest = parts(decode(leaf["bytes"]))
            need(not rest and len(places) + 1 == leaf["count"])
            need(all(p["leaf"] == 0 or places[p["leaf"] - 1] == p["hash"] for p in leaves))


status = 0  # needs python3-cryptography
if len(sys.argv) < 3:
    sys.exit(__doc__)
for name in sys.argv[2:]:
    try:
        with open(name, encoding="utf-8", newline="") as proof, open(name + ".event", "rb") as event:
            check(sys.argv[1], proof.read(), event.read())
        print(name, "accepted")
    except Exception:  # also what is cut short
        print(name, "REFUSED")
        status = 1
sys.exit(status)
