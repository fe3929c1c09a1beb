"""A complete agent loop on Nexus with nothing but a NATS client: it opens a
session, asks a model over HTTP, runs the tools that the model calls, survives a
refused context, regenerates an answer, forks, and reads everything back.

    pip install -r requirements.txt
    NEXUS_URL=nats://127.0.0.1:4222 MODEL_URL=http://127.0.0.1:11434/v1 LABEL=demo python agent.py
"""

import asyncio
import json
import os
import sys
import urllib.error
import urllib.request

import nats
from nats.errors import NoRespondersError, TimeoutError
from ulid import ULID

MODEL_URL, LABEL = os.environ["MODEL_URL"], os.environ["LABEL"]


def new_id():
    return str(ULID())


class Refused(Exception):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.details = error["code"], error.get("details", {})


class Nexus:
    """Speaks for one agent: every call is one NATS request."""

    def __init__(self, nc, agent="main"):
        self.nc, self.agent = nc, agent

    async def call(self, verb, **request):
        """The id in a request makes a retry safe: whatever became of the first
        try, the second is answered as if it had been the only one."""
        body = json.dumps(request).encode()
        for attempt in range(6):
            try:
                m = await self.nc.request(f"nexus.v1.default.{self.agent}.{verb}", body, timeout=35)
                if not (m.headers or {}).get("Nats-Service-Error-Code"):
                    return json.loads(m.data)
                failure = Refused(json.loads(m.data)["error"])
                if failure.code not in ("busy", "unavailable", "indeterminate"):
                    raise failure
            except (NoRespondersError, TimeoutError) as err:
                failure = err
            await asyncio.sleep(0.2 * 2**attempt)
        raise failure


def text(role, content):
    return {"role": role, "parts": [{"type": "text", "content": content}]}


class Agent:
    def __init__(self, nexus, session, said=()):
        self.nexus, self.session, self.said = nexus, session, list(said)

    async def append(self, messages, **more):
        return await self.nexus.call(f"turn.append.{self.session}", id=new_id(), messages=messages, **more)

    async def ask(self, content):
        """What the user said is stored before anybody answers it, so that it is
        not lost if this process is."""
        self.said.append(content)
        return await self.append([text("user", content)])

    async def context(self, verb, **request):
        """The messages of the next model call. A long context comes in pages."""
        messages, tools = [], None
        while True:
            page = await self.nexus.call(f"{verb}.{self.session}", **request)
            messages += page["messages"]
            tools = page.get("tools") or tools
            if not page.get("next"):
                return messages, tools
            request["after"] = page["next"]

    async def answer(self):
        """Lets the model answer the conversation so far, and stores the answer."""
        messages, tools = await self.context("context.get", format="openai")
        while True:
            status, headers, body = post({"model": "any", "messages": messages, "tools": tools})
            if status == 200:
                return await self.store(json.loads(body))
            if status == 429:
                await asyncio.sleep(float(headers.get("Retry-After", 1)))
                continue
            # Too long? Nexus reads the provider's words, compacts, and gives the
            # context that is left. Anything else it refuses, and so do we.
            print(f"the model refused: {status}; asking for a shorter context", file=sys.stderr)
            messages, tools = await self.context("context.overflow", id=new_id(), error=body, status=status, format="openai")

    async def store(self, reply):
        """The model's message becomes the response of the turn before it."""
        choice, usage = reply["choices"][0], reply["usage"]
        message, parts = choice["message"], []
        if message.get("content"):
            parts.append({"type": "text", "content": message["content"]})
            self.said.append(message["content"])
        calls = message.get("tool_calls") or []
        for c in calls:
            parts.append({"type": "tool_call", "id": c["id"], "name": c["function"]["name"], "arguments": json.loads(c["function"]["arguments"])})
        t = await self.append(
            [],
            response={"role": "assistant", "parts": parts, "finish_reason": choice["finish_reason"]},
            usage={"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]},
        )
        print(f"{len(calls)} calls, {message.get('content')!r}; compaction is {t['compaction']['state']}", file=sys.stderr)
        return calls

    async def converse(self):
        """Answers until the model calls no more tools. Results are appended one
        by one, as they come in."""
        while calls := await self.answer():
            for c in calls:
                part = {"type": "tool_call_response", "id": c["id"], "response": f"sunny in {c['function']['arguments']}"}
                await self.append([{"role": "tool", "parts": [part]}])

    async def check(self):
        """Reads the conversation back: every text that was said is there, in
        order, whatever the model was shown."""
        got, after = [], {}
        while True:
            page = await self.nexus.call(f"turn.list.{self.session}", full=True, **after)
            for t in page["turns"]:
                if t["type"] == "normal":
                    for m in [*t.get("messages", []), *filter(None, [t["response"]])]:
                        got += [p["content"] for p in m["parts"] if p["type"] == "text"]
            if not page.get("next"):
                break
            after = {"after": page["next"]}
        assert got == self.said, (got, self.said)


def post(request):
    r = urllib.request.Request(f"{MODEL_URL}/chat/completions", json.dumps(request).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.headers, err.read().decode()


async def main():
    nc = await nats.connect(os.environ["NEXUS_URL"])
    nexus = Nexus(nc)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
    s = await nexus.call("session.create", id=new_id(), label=LABEL, system="You are terse.", tools=[tool], limits={"context_window": 128_000})
    a = Agent(nexus, s["id"])

    # A question with two tool calls at once.
    question = await a.ask("What is the weather in Oslo and in Rome?")
    await a.converse()
    await a.check()

    # Regenerate: the head goes back to the question; the first answer stays.
    await nexus.call(f"session.move.{a.session}", id=new_id(), to=question["id"])
    del a.said[1:]
    await a.converse()

    # A long talk that the model's window can't hold.
    await a.ask("Here is everything." + " Everything." * 4000)
    await a.converse()
    await a.ask("And now?")
    await a.converse()
    await a.check()

    # A fork from the question: another line of work with the same beginning.
    f = await nexus.call(f"fork.create.{a.session}", id=new_id(), turn=question["id"], label=f"{LABEL}-fork")
    fork = Agent(nexus, f["id"], a.said[:1])
    await fork.ask("Never mind. Only Rome.")
    await fork.converse()
    await fork.check()

    print(a.session, fork.session)
    await nc.drain()


asyncio.run(main())
