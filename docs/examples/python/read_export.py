"""Reads a ledger without any code of Nexus: only docs/FORMAT.md says how.

    python3 read_export.py FILE.jsonl      # of ledgerctl export SESSION --format jsonl -o FILE.jsonl
    python3 read_export.py --vectors DIR   # the frozen examples of the format, turns/testdata

It checks the hash of each event, that it is in the one encoding it may have, and that it continues its
chain; opens each body with the keys that the file has; checks the commitment, and that each part can be
shown alone: with its bytes, its salt and its path, by SHA-256 and nothing else.

Needs python3-cryptography and python3-zstandard.
"""

import base64
import hashlib
import hmac
import json
import pathlib
import sys

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

ZSTD, SEALED = 1, 2
# Fields of the header, and the kinds that have parts.
VERSION, KIND, ID, CHAIN, INDEX, PREV, DIGEST, TO, BLOBS, ENCODING, KEYS, COMMITMENT = 1, 2, 3, 4, 5, 6, 10, 30, 40, 41, 42, 43
TURN, COMPACTION, REDACTED = 2, 3, 11


class Refused(Exception):
    """What was read is not what the format says."""


class Redacted(Refused):
    """The key of an event was taken: a redacted event has its body."""


def need(ok, why):
    if not ok:
        raise Refused(why)


# --- CBOR, in its deterministic form only


def head(b, at):
    """The major type of the item at an offset, its number, and where its content begins."""
    need(at < len(b), "the bytes end too early")
    major, short = b[at] >> 5, b[at] & 31
    if short < 24:
        return major, short, at + 1
    need(short <= 27, "an item of no fixed length")
    size = 1 << (short - 24)
    need(at + 1 + size <= len(b), "the bytes end too early")
    n = int.from_bytes(b[at + 1 : at + 1 + size], "big")
    need(n >= (24 if size == 1 else 1 << (4 * size)), "a number that is not in its shortest form")
    return major, n, at + 1 + size


def item(b, at, depth=16):
    """The value at an offset, and where the next one begins."""
    need(depth > 0, "nested too deep")
    if at < len(b) and b[at] == 0xF5:
        return True, at + 1
    major, n, at = head(b, at)
    if major == 0:
        return n, at
    if major == 1:
        return -1 - n, at
    if major in (2, 3):
        need(at + n <= len(b), "the bytes end too early")
        raw = bytes(b[at : at + n])
        return (raw if major == 2 else raw.decode()), at + n
    need(major in (4, 5), "a tag, a float or null")
    if major == 4:
        out = []
        for _ in range(n):
            v, at = item(b, at, depth - 1)
            out.append(v)
        return out, at
    out, last = {}, -1
    for _ in range(n):
        k, at = item(b, at, depth - 1)
        need(isinstance(k, int) and k > last, "keys that are not numbers in order")
        last = k
        out[k], at = item(b, at, depth - 1)
    return out, at


# --- payload, hash and commitment (FORMAT.md, 1 and 6)


def framed(payload):
    """The bytes of the header, the header, and the body."""
    need(payload[:1] == b"\x82", "a payload is an array of two")
    header, end = item(payload, 1)
    need(isinstance(header, dict), "the header is a map")
    need(list(header)[:2] == [VERSION, KIND], "version and kind come first")
    need(header[VERSION] == 1, f"unsupported: version {header[VERSION]}")
    body, after = item(payload, end)
    need(isinstance(body, bytes) and after == len(payload), "the body is a byte string, and the end")
    return payload[1:end], header, body


def event_hash(header_bytes, body):
    return hashlib.sha256(b"nexus.event.v1\0" + header_bytes + hashlib.sha256(body).digest()).digest()


def part_spans(kind, body):
    """Where the parts of a body lie."""
    lists, single = {TURN: ({1}, {2}), COMPACTION: ({6, 20}, set())}.get(kind, (set(), set()))
    spans = []

    def message(at):
        major, n, at = head(body, at)
        need(major == 5, "a message is a map")
        for _ in range(n):
            k, at = item(body, at)
            if k != 2:
                _, at = item(body, at)
                continue
            major, parts, at = head(body, at)
            need(major == 4, "parts are an array")
            for _ in range(parts):
                begin = at
                _, at = item(body, at)
                spans.append((begin, at))
        return at

    if not lists:
        return spans
    major, n, at = head(body, 0)
    need(major == 5, "a body is a map")
    for _ in range(n):
        k, at = item(body, at)
        if k in single:
            at = message(at)
        elif k in lists:
            major, count, at = head(body, at)
            need(major == 4, "messages are an array")
            for _ in range(count):
                at = message(at)
        else:
            _, at = item(body, at)
    need(at == len(body), "bytes after the body")
    return spans


def leaf_hash(salt, data):
    return hashlib.sha256(b"\0" + salt + data).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def leaves(kind, body, salt):
    """The bytes of each leaf, and its hash."""
    spans = part_spans(kind, body)
    parts = [body[a:b] for a, b in spans]
    hashes = [leaf_hash(salt(i + 1), p) for i, p in enumerate(parts)]
    outline, at = b"", 0
    for (a, b), h in zip(spans, hashes):
        outline += body[at:a] + b"\x58\x20" + h
        at = b
    outline += body[at:]
    return [outline] + parts, [leaf_hash(salt(0), outline)] + hashes


def split(n):
    k = 1
    while 2 * k < n:
        k *= 2
    return k


def root(hashes):
    if len(hashes) == 1:
        return hashes[0]
    k = split(len(hashes))
    return node_hash(root(hashes[:k]), root(hashes[k:]))


def path(hashes, leaf):
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if leaf < k:
        return path(hashes[:k], leaf) + [root(hashes[k:])]
    return path(hashes[k:], leaf - k) + [root(hashes[:k])]


def check_leaf(commitment, leaf, count, salt, data, way):
    """What somebody does who was shown one part: he has the header, and these."""

    def climb(h, leaf, n, way):
        if n == 1:
            return h, way
        k = split(n)
        h, way = climb(h, leaf - k, n - k, way) if leaf >= k else climb(h, leaf, k, way)
        need(way, "the path is too short")
        return (node_hash(way[0], h) if leaf >= k else node_hash(h, way[0])), way[1:]

    need(0 <= leaf < count, "no such leaf")
    h, rest = climb(leaf_hash(salt, data), leaf, count, way)
    need(not rest and h == commitment, "this part is not what the header commits to")


# --- keys (FORMAT.md, 6 and 7)


def hkdf(key, info):
    secret = hmac.new(bytes(32), key, hashlib.sha256).digest()
    return hmac.new(secret, info + b"\x01", hashlib.sha256).digest()


class Remains:
    """What is left of a content key from which events were taken (FORMAT.md, 10)."""

    def __init__(self, b):
        def take(n):
            nonlocal b
            need(n <= len(b), "what is left of a key is cut off")
            out, b = b[:n], b[n:]
            return out

        self.fresh, self.infos, self.chunks = take(32), {}, []
        for _ in range(take(1)[0]):
            info = take(take(1)[0])
            self.infos[info] = take(32)
        for _ in range(int.from_bytes(take(4), "big")):
            kind = take(1)[0]
            need(kind in (1, 2), "a chunk of another kind")
            if kind == 1:
                self.chunks.append(take(32))
            else:
                has = take(32)
                self.chunks.append({i: take(32) for i in range(256) if has[i // 8] & 0x80 >> i % 8})
        need(not b, "bytes behind what is left of a key")


def derive(content_key, info):
    """The key by an info from a content key, or from what is left of one."""
    if isinstance(content_key, Remains):
        return content_key.infos.get(info) or hkdf(content_key.fresh, info)
    return hkdf(content_key, info)


def indexed_key(content_key, index):
    """The key of the event at an index."""
    n, at = index // 256, index % 256
    if isinstance(content_key, Remains):
        if n < len(content_key.chunks):
            chunk = content_key.chunks[n]
            if isinstance(chunk, dict):
                if at not in chunk:
                    raise Redacted(f"event {index} was redacted: its key is gone")
                return chunk[at]
            return hkdf(chunk, b"nexus.key.v1 event" + bytes([at]))
        content_key = content_key.fresh
    chunk = hkdf(content_key, b"nexus.key.v1 chunk" + n.to_bytes(8, "big"))
    return hkdf(chunk, b"nexus.key.v1 event" + bytes([at]))


def mac(key, *parts):
    return hmac.new(key, b"".join(len(p).to_bytes(8, "big") + p for p in parts), hashlib.sha256).digest()


def event_key(header, ring, keys=None):
    """The key of an event, by its Keys."""
    ids = keys or header.get(KEYS, [])
    if not ids:
        return None
    for i in ids:
        need(i in ring, f"no key {i.hex()}")
    entity, index = header[CHAIN][0], header[INDEX]
    if entity in ("s", "a", "c"):
        k = indexed_key(ring[ids[0]], index)
    else:
        shared = derive(ring[ids[0]], b"nexus.key.v1 shared")
        k = mac(shared, entity.encode(), header[CHAIN][1].encode(), header[ID])
    if len(ids) > 1:
        k = hkdf(k + b"".join(derive(ring[i], b"nexus.key.v1 shared") for i in ids[1:]), b"nexus.key.v1 combined")
    return k


def salts(header, key):
    if key is None:
        return lambda leaf: bytes(32)
    k = hkdf(key, b"nexus.key.v1 salt")
    return lambda leaf: hmac.new(k, header[ID] + leaf.to_bytes(8, "big"), hashlib.sha256).digest()


def stored_digest(key, what, request):
    r = hashlib.sha256(b"".join(len(p).to_bytes(8, "big") + p for p in (b"nexus.request.v1", what, request))).digest()
    return mac(hkdf(key or bytes(32), b"nexus.key.v1 request"), r)


def blob_address(digest):
    """What a blob is stored under, by the digest that a reference has (FORMAT.md, 8)."""
    return hashlib.sha256(b"nexus.address.v1\0" + digest).digest()


def open_blob(digest, sealed):
    """The content of a blob: its digest is its key."""
    bound = b"nexus.blob.v1\0" + sealed[:1] + blob_address(digest)
    try:
        content = AESGCM(hkdf(digest, b"nexus.key.v1 blob")).decrypt(sealed[1:13], sealed[13:], bound)
    except InvalidTag:
        raise Refused("the seal of a blob is broken") from None
    return zstandard.ZstdDecompressor().decompress(content, max_output_size=64 << 20) if sealed[0] & ZSTD else content


def open_body(header_bytes, header, body, key):
    if header.get(ENCODING, 0) & SEALED:
        try:
            body = AESGCM(hkdf(key, b"nexus.key.v1 body")).decrypt(body[:12], body[12:], header_bytes)
        except InvalidTag:
            raise Refused("the seal is broken") from None
    if header.get(ENCODING, 0) & ZSTD:
        body = zstandard.ZstdDecompressor().decompress(body, max_output_size=64 << 20)
    return body


def check_redacted(value, of):
    """Checks that what stays of a body is what the header of its event commits to (FORMAT.md, RedactedBody)."""
    kind, body, states = value[1], value[2], value[3]
    need(kind == of[KIND] and kind != REDACTED, "a body of another kind")
    spans = part_spans(kind, body)
    need(len(states) == len(spans) + 1, "as many leaves as the body has parts, and one")
    need(all(state in (1, 2) for state, _ in states), "a leaf of another state")
    hashes = [v if state == 2 else leaf_hash(v, body[a:b]) for (state, v), (a, b) in zip(states[1:], spans)]
    outline, at = b"", 0
    for (a, b), h in zip(spans, hashes):
        outline += body[at:a] + b"\x58\x20" + h
        at = b
    outline += body[at:]
    state, v = states[0]
    need(root([v if state == 2 else leaf_hash(v, outline)] + hashes) == of[COMMITMENT], "what stays is not what the header commits to")
    return item(body, 0)[0]


def check_event(payload, want, ring):
    """Checks one event with all that it says, and returns its header and its body; none, if it was redacted."""
    header_bytes, header, stored = framed(payload)
    need(event_hash(header_bytes, stored) == want, "the hash differs")
    if not stored:
        return header, None
    try:
        key = event_key(header, ring)
    except Redacted:
        return header, None
    body = open_body(header_bytes, header, stored, key)
    value, end = item(body, 0)
    need(end == len(body), "bytes after the body")
    salt = salts(header, key)
    data, hashes = leaves(header[KIND], body, salt)
    need(root(hashes) == header[COMMITMENT], "the commitment differs")
    for i, d in enumerate(data):
        check_leaf(header[COMMITMENT], i, len(data), salt(i), d, path(hashes, i))
    return header, value


# --- an export (FORMAT.md, Export)


def crockford(text):
    n = 0
    for c in text:
        n = n * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(c)
    return n.to_bytes(16, "big")


def read_export(file):
    ring, ends, pieces, blobs = {}, {}, {}, {}
    redacted, headers = {}, {}  # by the id of the event: what has its body; headers of events
    events = parts = sealed = 0
    for line in file:
        line = json.loads(line)
        if key := line.get("key"):
            ring[crockford(key["id"])] = base64.b64decode(key["key"]) if "key" in key else Remains(base64.b64decode(key["remains"]))
        elif piece := line.get("piece"):
            raw = base64.b64decode(piece["sealed"])
            pieces["sha256:" + hashlib.sha256(b"nexus.piece.v1\0" + raw).hexdigest()] = raw
        elif blob := line.get("blob"):
            raw = base64.b64decode(blob["sealed"]) if "sealed" in blob else b"".join(pieces[p] for p in blob["pieces"])
            digest = bytes.fromhex(blob["digest"].removeprefix("sha256:"))
            tree = crockford(blob["root"])
            if tree in ring:
                content = open_blob(digest, raw)
                need(mac(derive(ring[tree], b"nexus.key.v1 blob digest"), content) == digest, "a blob has other content")
                blobs[blob_address(digest)] = len(content)
        elif event := line.get("event"):
            if "payload" in event:
                payload = base64.b64decode(event["payload"])
            else:
                payload = b"".join(pieces[p] for p in event["pieces"])
            want = bytes.fromhex(event["hash"].removeprefix("sha256:"))
            header, body = check_event(payload, want, ring)
            chain = tuple(header[CHAIN])
            index, prev = ends.get(chain, (-1, None))
            need(header[INDEX] == index + 1 and header.get(PREV) == prev, "the event does not continue its chain")
            ends[chain] = header[INDEX], want
            events += 1
            headers[header[ID]] = header
            if header[KIND] == REDACTED and body is not None:
                check_redacted(body, headers[header[TO][1]])
            taken = body is None and header.get(ENCODING, 0)
            if taken:
                redacted[header[TO][1] if header[KIND] == REDACTED else header[ID]] = False
            if header[KIND] == REDACTED and not taken:
                redacted[header[TO][1]] = True
            for address, size in header.get(BLOBS, []) if ring and not taken else []:
                need(blobs.get(address) == size, "a blob that a header names is not in the file")
            sealed += bool(header.get(ENCODING, 0) & SEALED)
            if body is not None:
                for m in body.get(1, []) if header[KIND] == TURN else []:
                    parts += len(m.get(2, []))
    need(events, "the file has no events")
    need(all(redacted.values()), "an event was redacted, and none has its body")
    print(f"{events} events of {len(ends)} chains: hashes, chains, bodies ({sealed} sealed) and commitments are as they must be; {parts} parts of messages, {len(blobs)} blobs" + (f"; {len(redacted)} redacted" if redacted else ""))


# --- the frozen examples


def read_vectors(folder):
    folder = pathlib.Path(folder)
    ring = {bytes.fromhex(i): bytes.fromhex(k) for i, k in json.loads((folder / "keys.json").read_text()).items()}
    count = 0
    for name in sorted((folder / "golden").glob("*.txt")):
        first, _, rest = name.read_text().partition("\npayload\n")
        payload = bytes.fromhex(rest.partition("event\n")[0].replace("\n", ""))
        want = bytes.fromhex(first.removeprefix("hash sha256:"))
        try:
            check_event(payload, want, ring)
            for at in range(len(payload)):  # and no byte can change
                changed = payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]
                try:
                    check_event(changed, want, ring)
                except (Refused, UnicodeDecodeError):
                    continue
                raise Refused(f"byte {at} can change")
        except Refused as e:
            raise Refused(f"{name.name}: {e}") from None
        count += 1
    derived = json.loads((folder / "derived.json").read_text())
    key = ring[sorted(ring)[0]]
    header = {CHAIN: ["s", ""], INDEX: 300}
    for name, got in {
        "event 1": event_key({CHAIN: ["s", ""], INDEX: 1}, ring, sorted(ring)[:1]),
        "event 300": event_key(header, ring, sorted(ring)[:1]),
        "combined": event_key(header, ring, sorted(ring)),
        "body key": hkdf(key, b"nexus.key.v1 body"),
        "request key": hkdf(key, b"nexus.key.v1 request"),
        "salt key": hkdf(key, b"nexus.key.v1 salt"),
        "shared key": hkdf(key, b"nexus.key.v1 shared"),
        "successor key": hkdf(key, b"nexus.key.v1 successor"),
        "blob digest": mac(hkdf(key, b"nexus.key.v1 blob digest"), b"hi"),
        "blob address": blob_address(mac(hkdf(key, b"nexus.key.v1 blob digest"), b"hi")),
        "label": mac(hkdf(key, b"nexus.key.v1 label"), b"acme", b"coder", b"telegram")[:16],
        "policy name": mac(hkdf(key, b"nexus.key.v1 policy"), b"acme", b"mine"),
        "stored digest": stored_digest(key, b"turn.append", b'{"a":1}'),
        "salt 2": hmac.new(key, bytes(16) + (2).to_bytes(8, "big"), hashlib.sha256).digest(),
    }.items():
        need(derived[name].removeprefix("sha256:") == got.hex(), f"{name}: {got.hex()}, the file has {derived[name]}")
    digest = bytes.fromhex(derived["blob digest"].removeprefix("sha256:"))
    need(open_blob(digest, bytes.fromhex(derived["blob"])) == b"hi", "the blob has other content")
    print(f"{count} events read as they must, and no byte of them can change")


if __name__ == "__main__":
    try:
        if len(sys.argv) == 3 and sys.argv[1] == "--vectors":
            read_vectors(sys.argv[2])
        elif len(sys.argv) == 2:
            with open(sys.argv[1]) as f:
                read_export(f)
        else:
            sys.exit(__doc__)
    except Refused as e:
        sys.exit(f"refused: {e}")
