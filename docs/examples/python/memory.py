"""An agent that remembers. Its model has two tools: remember saves a memory with the
turn that it comes from, recall searches the memories. A later session has in its
context what an earlier one saved, without a tool call: its policy shows memories that
have words of the user's newest text.

    pip install -r requirements.txt
    MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 python memory.py
"""

import asyncio

import nats

from agent import LABEL, NEXUS_URL, Agent, Nexus, credentials, new_id


def tool(name, description):
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": text}}


TOOLS = [
    tool("remember", "Saves one fact for later sessions, as a sentence that can be understood alone."),
    tool("recall", "Finds what was remembered by its words."),
]


class RememberingAgent(Agent):
    async def run(self, calls):
        """Runs the tools one after the other. A call that is run again after a crash
        saves nothing twice: the same text is the same memory."""
        for call in calls:
            args = call["arguments"]
            words = args.get("text") if isinstance(args, dict) else None
            if call["name"] not in ("remember", "recall") or not isinstance(words, str):
                result = {"response": 'there are remember {"text": …} and recall {"text": …}', "is_error": True}
            else:
                result = {"response": await (self.remember if call["name"] == "remember" else self.recall)(words)}
            part = {"type": "tool_call_response", "id": call["id"], **result}
            await self.append([{"role": "tool", "parts": [part]}])

    async def remember(self, words):
        """The source of the memory is the turn in which the model said it. If it only
        repeats what a tool printed, say trust="tool": then a person promotes it first."""
        source = {"session": self.session, "turn": self.answered}
        memory = await self.nexus.call(
            "memory.save", id=new_id(), kind="semantic", text=words, session=self.session, sources=[source], trust="agent"
        )
        return "known already" if memory.get("known") else "remembered"

    async def recall(self, words):
        found = await self.nexus.call("memory.search", text=words, session=self.session)
        return [hit["text"] for hit in found["hits"]]


async def main():
    nc = await nats.connect(NEXUS_URL, nkeys_seed=credentials())
    nexus = Nexus(nc)

    def begin(label):
        """The policy wolffish shows memories in contexts; balanced, the default, shows none."""
        return lambda: nexus.call(
            "session.create",
            id=new_id(),
            label=label,
            policy="wolffish",
            system="You are terse. Remember what the user wants kept.",
            tools=TOOLS,
            limits={"context_window": 128_000},
        )

    first = await RememberingAgent.open(nexus, f"{LABEL}-first", begin(f"{LABEL}-first"))
    await first.ask("We use pnpm here, not npm. Remember that.")
    await first.converse()

    # Another conversation, perhaps days later, which shares nothing with the first but the agent.
    later = await RememberingAgent.open(nexus, f"{LABEL}-later", begin(f"{LABEL}-later"))
    await later.ask("How do I install the packages: npm or pnpm?")
    messages, _ = await later.context("context.get", format="openai")
    print(*(m["content"] for m in messages if m["role"] == "system" and "<memory>" in m["content"]))
    await later.converse()

    # Where does it come from? Each memory names its turns, and show prints one.
    for memory in (await nexus.call("memory.search", text="pnpm", session=later.session))["hits"]:
        for source in memory["sources"]:
            print(f"{memory['text']}  # ledgerctl show {source['session']}/{source['turn']}")
    await nc.drain()


if __name__ == "__main__":
    asyncio.run(main())
