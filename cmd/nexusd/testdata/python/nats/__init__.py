"""A stand-in for nats-py where it is not installed: what the agent of docs/API.md
uses of it (connect, request, drain), under the same names, and no more."""

import asyncio
import json
from urllib.parse import urlparse


class Msg:
    def __init__(self, data, headers):
        self.data, self.headers = data, headers


class Client:
    async def _open(self, url):
        u = urlparse(url)
        self._in, self._out = await asyncio.open_connection(u.hostname, u.port)
        await self._in.readline()  # INFO
        self._n = 0
        self._send(b"CONNECT " + json.dumps({"verbose": False, "headers": True, "no_responders": True}).encode())

    def _send(self, line):
        self._out.write(line + b"\r\n")

    async def request(self, subject, payload=b"", timeout=0.5):
        self._n += 1
        inbox = f"_INBOX.standin.{self._n}"
        self._send(f"SUB {inbox} {self._n}\r\nUNSUB {self._n} 1\r\nPUB {subject} {inbox} {len(payload)}".encode())
        self._send(payload)
        return await asyncio.wait_for(self._reply(), timeout)

    async def _reply(self):
        while True:
            line = await self._in.readline()
            words = line.split()
            if not words:
                raise ConnectionError("the server closed the connection")
            if words[0] == b"PING":
                self._send(b"PONG")
            elif words[0] == b"-ERR":
                raise ConnectionError(line.decode())
            elif words[0] in (b"MSG", b"HMSG"):
                size, head = int(words[-1]), 0
                if words[0] == b"HMSG":
                    head = int(words[-2])
                body = await self._in.readexactly(size + 2)
                lines = body[:head].decode().split("\r\n")
                if lines[0].endswith(" 503"):
                    raise ConnectionError("no responders")
                return Msg(body[head:size], dict(h.split(": ", 1) for h in lines[1:] if h) or None)

    async def drain(self):
        await self._out.drain()
        self._out.close()
        await self._out.wait_closed()


async def connect(servers, nkeys_seed=None):
    if nkeys_seed:
        raise NotImplementedError("the stand-in speaks to servers without credentials")
    c = Client()
    await c._open(servers)
    return c
