"""A complete agent loop on Nexus with nothing but a NATS client: it opens a
session, asks a model over HTTP, runs the tools that the model calls, survives a
refused context, regenerates an answer, forks, and reads everything back. Started
again under the same label it finishes what it had begun, and goes on in the same
session.

    pip install -r requirements.txt
    MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 python agent.py
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

NEXUS_URL = os.environ.get("NEXUS_URL", "nats://127.0.0.1:4222")
MODEL_URL = os.environ.get("MODEL_URL", "http://127.0.0.1:11434/v1")
MODEL = os.environ.get("MODEL", "any")
LABEL = os.environ.get("LABEL", "demo")


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


def tool_arguments(written):
    """What the model wrote need not be JSON: then it is kept as a text."""

    def refuse(constant):
        raise ValueError(f"{constant} is no JSON")

    try:
        return json.loads(written or "{}", parse_constant=refuse)
    except ValueError:
        return written


def weather(call):
    """The tool. A model that called it wrongly is told so."""
    args = call["arguments"]
    if call["name"] != "weather" or not isinstance(args, dict) or not args.get("city"):
        return {"response": 'there is only weather {"city": …}', "is_error": True}
    return {"response": f"sunny in {json.dumps(args)}"}


class Agent:
    def __init__(self, nexus, session):
        self.nexus, self.session, self.said = nexus, session, []
        self.answered = None  # the turn with the model's newest answer
        self.had = None  # the last context: Nexus sends what changed since

    @classmethod
    async def open(cls, nexus, label, begin):
        """The conversation of a label: that of a run before this one, else one
        that begin makes."""
        try:
            found = await nexus.call("session.resolve", label=label)
        except Refused as err:
            if err.code != "not_found":
                raise
            found = None
        a = cls(nexus, (found or await begin())["id"])
        a.said = await a.texts()
        if found:
            await a.resume()
        return a

    async def append(self, messages, **more):
        return await self.nexus.call(f"turn.append.{self.session}", id=new_id(), messages=messages, **more)

    async def ask(self, content):
        """What the user said is stored before anybody answers it, so that it is
        not lost if this process is."""
        self.said.append(content)
        return await self.append([text("user", content)])

    async def context(self, verb, **request):
        """The messages of the next model call. A long context comes in pages, a
        message that is longer than a page in pieces. What the last one had is kept."""
        messages, tools, partial, had, first = [], None, "", self.had, None
        if had and verb == "context.get":
            request["have"] = {"fingerprint": had["fingerprint"], "preamble_digest": had["preamble_digest"]}
        while True:
            try:
                page = await self.nexus.call(f"{verb}.{self.session}", **request)
            except Refused as err:
                if err.code != "conflict" or not request.pop("after", None):
                    raise
                partial, first = "", None  # the settings changed since the first page: begin again
                continue
            if first is None:
                first = page
                messages = had["messages"][: page["keep"]] if page.get("keep") else []
                tools = had["tools"] if page.get("keep_preamble") else None
            messages += page["messages"]
            partial += page.get("partial", "")
            if page.get("partial_end"):
                messages.append(json.loads(partial))
                partial = ""
            tools = page.get("tools") or tools
            if not page.get("next"):
                self.had = {"fingerprint": page["fingerprint"], "preamble_digest": page["preamble_digest"], "messages": messages, "tools": tools}
                return messages, tools
            request["after"] = page["next"]

    async def answer(self):
        """Lets the model answer the conversation so far, and stores the answer."""
        messages, tools = await self.context("context.get", format="openai")
        for attempt in range(6):
            status, headers, body = await asyncio.to_thread(post, {"model": MODEL, "messages": messages, "tools": tools})
            if status == 200:
                return await self.store(json.loads(body))
            if status == 429 or status >= 500:
                await asyncio.sleep(float(headers.get("Retry-After", 1)))
                continue
            # Too long? Nexus reads the provider's words, compacts, and gives the
            # context that is left. Anything else it refuses, and so do we.
            print(f"the model refused: {status}: {body}", file=sys.stderr)
            messages, tools = await self.context("context.overflow", id=new_id(), error=body, status=status, format="openai")
        raise RuntimeError(f"the model's server: {status}: {body}")

    async def store(self, reply):
        """The model's message becomes the response of the turn before it."""
        choice, usage = reply["choices"][0], reply.get("usage") or {}
        message, parts = choice["message"], []
        if message.get("content"):
            parts.append({"type": "text", "content": message["content"]})
            self.said.append(message["content"])
        calls = [
            {"type": "tool_call", "id": c["id"], "name": c["function"]["name"], "arguments": tool_arguments(c["function"]["arguments"])}
            for c in message.get("tool_calls") or []
        ]
        t = await self.append(
            [],
            response={"role": "assistant", "parts": parts + calls, "finish_reason": choice["finish_reason"]},
            usage={"input_tokens": usage.get("prompt_tokens", 0), "output_tokens": usage.get("completion_tokens", 0)},
        )
        self.answered = t["id"]
        print(f"{len(calls)} calls, {message.get('content')!r}; compaction is {t['compaction']['state']}", file=sys.stderr)
        return calls

    async def run(self, calls):
        """Runs tools side by side. Results are appended as they come in."""

        async def one(call):
            part = {"type": "tool_call_response", "id": call["id"], **await asyncio.to_thread(weather, call)}
            await self.append([{"role": "tool", "parts": [part]}])

        await asyncio.gather(*map(one, calls))

    async def converse(self):
        """Answers until the model calls no more tools."""
        while calls := await self.answer():
            await self.run(calls)

    async def resume(self):
        """Finishes what a run before this one left: calls without a result, and a
        turn without an answer."""
        done, asked, calls = set(), False, []
        async for t in self.turns("desc"):
            if t["type"] != "normal":
                continue
            done |= {p["id"] for m in t.get("messages", []) for p in m["parts"] if p["type"] == "tool_call_response"}
            if t["response"]:
                self.answered = t["id"]
                calls = [p for p in t["response"]["parts"] if p["type"] == "tool_call" and p["id"] not in done]
                break
            asked = True
        if asked or calls:
            print(f"resuming: {len(calls)} calls are open", file=sys.stderr)
            await self.run(calls)
            await self.converse()

    async def turns(self, order):
        """The conversation, from its beginning or ("desc") from its head."""
        request = {"full": True, "order": order}
        while True:
            page = await self.nexus.call(f"turn.list.{self.session}", **request)
            for t in page["turns"]:
                yield t
            if not page.get("next"):
                return
            request["after"] = page["next"]

    async def texts(self):
        """What was said, in order. The content of a large text is apart (blob.get)
        and not read here."""
        said = []
        async for t in self.turns("asc"):
            if t["type"] == "normal":
                for m in [*t.get("messages", []), *filter(None, [t["response"]])]:
                    said += [p.get("content", "") for p in m["parts"] if p["type"] == "text"]
        return said

    async def check(self):
        """Reads the conversation back: every text that was said is there, in
        order, whatever the model was shown."""
        got = await self.texts()
        assert got == self.said, (got, self.said)


def post(request):
    r = urllib.request.Request(f"{MODEL_URL}/chat/completions", json.dumps(request).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(r) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as err:
        return err.code, err.headers, err.read().decode()


def credentials():
    """The file of this agent's key: NEXUS_CREDS, else the one that nexusd wrote for its address; None if there is none."""
    if "NEXUS_CREDS" in os.environ:
        return os.environ["NEXUS_CREDS"]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    name = NEXUS_URL.replace("nats://", "").replace("localhost", "127.0.0.1").replace(":", "_")
    try:
        with open(f"{config}/nexus/contexts/{name}.json") as f:
            return json.load(f)["agent"]
    except FileNotFoundError:
        return None


async def main():
    nc = await nats.connect(NEXUS_URL, nkeys_seed=credentials())
    nexus = Nexus(nc)
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
    a = await Agent.open(
        nexus,
        LABEL,
        lambda: nexus.call("session.create", id=new_id(), label=LABEL, system="You are terse.", tools=[tool], limits={"context_window": 128_000}),
    )

    # A question with two tool calls at once.
    question = await a.ask("What is the weather in Oslo and in Rome?")
    asked = len(a.said)
    await a.converse()
    await a.check()

    # Regenerate: the head goes back to the question; the first answer stays.
    await nexus.call(f"session.move.{a.session}", id=new_id(), to=question["id"])
    del a.said[asked:]
    await a.converse()

    # A long talk that the model's window can't hold.
    await a.ask("Here is everything." + " Everything." * 4000)
    await a.converse()
    await a.ask("And now?")
    await a.converse()
    await a.check()

    # A fork from the question: another line of work with the same beginning.
    fork = await Agent.open(nexus, f"{LABEL}-fork", lambda: nexus.call(f"fork.create.{a.session}", id=new_id(), turn=question["id"], label=f"{LABEL}-fork"))
    await fork.ask("Never mind. Only Rome.")
    await fork.converse()
    await fork.check()

    print(a.session, fork.session)
    await nc.drain()


if __name__ == "__main__":
    asyncio.run(main())
