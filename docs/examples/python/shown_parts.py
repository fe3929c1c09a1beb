"""What a proof shows of a turn, for verify_proof.py."""

import json
import re


def need(ok):
    if not ok:
        raise ValueError("refused")


def members(pairs):
    """An object of JSON: each name once, in small letters. Whoever reads the file with another program sees the same."""
    need(len(dict(pairs)) == len(pairs) and all(re.fullmatch("[a-z_]*", name) for name, _ in pairs))
    return {name: value for name, value in pairs if value is not None}


def parse(event):
    e = json.loads(event, object_pairs_hook=members, parse_constant=members)
    need(type(e["nexus_event"]) is int and e["nexus_event"] == 1)
    return e


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


def check(header, leaves, decode, sha, root):
    """Checks what is shown against the commitment in the header, and says what that is."""
    # The header ends with the commitment, or with that and the sender.
    end = re.search(rb"\x18\x2b\x58\x20(.{32})(\x18\x2c\x78\x38[A-Z2-7]{56})?\Z", header, re.DOTALL)
    need(type(leaves) is list)
    leaves = [{"leaf": 0, "path": [], **leaf} for leaf in leaves]
    need(len({leaf["leaf"] for leaf in leaves}) == len(leaves) and len({leaf["count"] for leaf in leaves}) < 2)
    places, said = None, ""
    for leaf in leaves:
        need(type(leaf["leaf"]) is type(leaf["count"]) is int and type(leaf["path"]) is list)
        salt = decode(leaf["salt"])
        need(len(salt) == 32)
        leaf["hash"] = sha(b"\0", salt, decode(leaf["bytes"]))
        need(root(leaf["hash"], leaf["leaf"], leaf["count"], map(decode, leaf["path"])) == end[1])
        if leaf["leaf"] == 0:  # it says how many parts there are, and where each is
            places, rest = parts(decode(leaf["bytes"])) if leaf["count"] > 1 else ([], b"")
            need(not rest and len(places) + 1 == leaf["count"])
    for leaf in leaves:
        if leaf["leaf"] == 0:
            said += ", what holds its parts"
        elif places is None:
            said += f", a part (as number {leaf['leaf']}: its place and who said it are not proven)"
        else:
            need(places[leaf["leaf"] - 1] == leaf["hash"])
            said += f", part {leaf['leaf']} of {leaf['count'] - 1}"
    return said
