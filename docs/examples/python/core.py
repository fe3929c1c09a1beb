"""The core of Nexus with nothing but a NATS client: append, a retry with the same id,
context, fork, rewind, compact, and an error. docs/GUIDE.md explains it.

    pip install 'nats-py[nkeys]'
    python core.py
"""

import asyncio
import json
import os
import secrets
import time

import nats


class Refused(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.details = error["code"], error.get("details", {})


def new_id():
    """A ULID: 48 bits of time and 80 of chance."""
    n = time.time_ns() // 1_000_000 << 80 | secrets.randbits(80)
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[n >> 5 * i & 31] for i in range(25, -1, -1))


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


async def main():
    nc = await nats.connect(os.environ.get("NEXUS_URL", "nats://127.0.0.1:4222"), nkeys_seed=os.environ.get("NEXUS_CREDS"))

    async def call(verb, **request):
        reply = await nc.request("nexus.v1.default.main." + verb, json.dumps(request).encode(), timeout=35)
        answer = json.loads(reply.data)
        if reply.headers and "Nats-Service-Error-Code" in reply.headers:
            raise Refused(answer["error"])
        return answer

    session = (await call("session.create", system="You are terse."))["id"]

    question = {"id": new_id(), "messages": [text("user", "What is a ledger?")]}
    first = await call("turn.append." + session, **question)

    again = await call("turn.append." + session, **question)
    print("one turn:", str(again["hash"] == first["hash"]).lower())

    context = await call("context.get." + session, format="openai")
    print("messages for the model:", len(context["messages"]))
    answer = await call("turn.append." + session, messages=[], response=text("assistant", "A record that only grows."))

    for _ in range(3):
        await call("turn.append." + session, messages=[text("user", "Go on.")], response=text("assistant", "A page of a long answer. " * 40))
    run = await call("compaction.run." + session, policy={"name": "balanced", "set": {"keep_tokens": 50}})
    print("compaction:", run["state"])

    fork = (await call("fork.create." + session, turn=answer["id"]))["id"]
    await call("turn.append." + fork, messages=[text("user", "And a journal?")])
    context = await call("context.get." + fork, format="openai")
    print("messages on the fork:", len(context["messages"]))

    moved = await call("session.move." + session, to=first["id"])
    print("head at depth:", moved["depth"])

    try:
        await call("turn.append." + session, parent=answer["id"], messages=[text("user", "Too late.")])
    except Refused as err:
        print("refused:", err.code, str(err.details["head"] == first["id"]).lower())
    await nc.drain()


asyncio.run(main())
