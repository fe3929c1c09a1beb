// A complete agent loop on Nexus with nothing but a NATS client: it opens a
// session, asks a model over HTTP, runs the tools that the model calls, survives
// a refused context, regenerates an answer, forks, and reads everything back.
//
//   npm install
//   NEXUS_URL=nats://127.0.0.1:4222 MODEL_URL=http://127.0.0.1:11434/v1 LABEL=demo node agent.mjs
import { connect } from "@nats-io/transport-node";
import { ulid } from "ulid";
import assert from "node:assert/strict";

const { NEXUS_URL, MODEL_URL, LABEL } = process.env;
const nc = await connect({ servers: NEXUS_URL });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

class Refused extends Error {
  constructor({ code, message, details }) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, details });
  }
}

// One call is one NATS request. The id in it makes a retry safe: whatever became
// of the first try, the second is answered as if it had been the only one.
async function call(verb, request) {
  for (let attempt = 0; ; attempt++) {
    let failure;
    try {
      const m = await nc.request(`nexus.v1.default.main.${verb}`, JSON.stringify(request), { timeout: 35_000 });
      if (!m.headers?.get("Nats-Service-Error-Code")) return m.json();
      failure = new Refused(m.json().error);
      if (!["busy", "unavailable", "indeterminate"].includes(failure.code)) throw failure;
    } catch (err) {
      if (err === failure) throw err; // refused for good
      failure = err; // no answer in time
    }
    if (attempt === 5) throw failure;
    await sleep(200 * 2 ** attempt);
  }
}

const text = (role, content) => ({ role, parts: [{ type: "text", content }] });

class Agent {
  constructor(session, said = []) {
    Object.assign(this, { session, said });
  }

  append(messages, more = {}) {
    return call(`turn.append.${this.session}`, { id: ulid(), messages, ...more });
  }

  // What the user said is stored before anybody answers it, so that it is not
  // lost if this process is.
  ask(content) {
    this.said.push(content);
    return this.append([text("user", content)]);
  }

  // The messages of the next model call. A long context comes in pages.
  async context(verb, request) {
    const all = { messages: [] };
    for (;;) {
      const page = await call(`${verb}.${this.session}`, request);
      all.messages.push(...page.messages);
      if (page.tools) all.tools = page.tools;
      if (!page.next) return all;
      request.after = page.next;
    }
  }

  // Lets the model answer the conversation so far, and stores the answer.
  async answer() {
    let { messages, tools } = await this.context("context.get", { format: "openai" });
    for (;;) {
      const r = await fetch(`${MODEL_URL}/chat/completions`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ model: "any", messages, tools }),
      });
      const body = await r.text();
      if (r.ok) return this.store(JSON.parse(body));
      if (r.status === 429) {
        await sleep(1000 * Number(r.headers.get("Retry-After") ?? 1));
        continue;
      }
      // Too long? Nexus reads the provider's words, compacts, and gives the context
      // that is left. Anything else it refuses, and so do we.
      console.error(`the model refused: ${r.status}; asking for a shorter context`);
      ({ messages, tools } = await this.context("context.overflow", { id: ulid(), error: body, status: r.status, format: "openai" }));
    }
  }

  // The model's message becomes the response of the turn before it.
  async store({ choices: [{ message, finish_reason }], usage }) {
    const calls = message.tool_calls ?? [];
    const parts = [];
    if (message.content) {
      parts.push({ type: "text", content: message.content });
      this.said.push(message.content);
    }
    for (const c of calls) parts.push({ type: "tool_call", id: c.id, name: c.function.name, arguments: JSON.parse(c.function.arguments) });
    const t = await this.append([], {
      response: { role: "assistant", parts, finish_reason },
      usage: { input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens },
    });
    console.error(`${calls.length} calls, ${JSON.stringify(message.content)}; compaction is ${t.compaction.state}`);
    return calls;
  }

  // Answers until the model calls no more tools. Results are appended one by one,
  // as they come in.
  async converse() {
    for (let calls = await this.answer(); calls.length > 0; calls = await this.answer()) {
      for (const c of calls) {
        await this.append([{ role: "tool", parts: [{ type: "tool_call_response", id: c.id, response: `sunny in ${c.function.arguments}` }] }]);
      }
    }
  }

  // Reads the conversation back: every text that was said is there, in order,
  // whatever the model was shown.
  async check() {
    const got = [];
    const request = { full: true };
    for (;;) {
      const page = await call(`turn.list.${this.session}`, request);
      for (const t of page.turns.filter((t) => t.type === "normal")) {
        for (const m of [...(t.messages ?? []), t.response].filter(Boolean)) {
          got.push(...m.parts.filter((p) => p.type === "text").map((p) => p.content));
        }
      }
      if (!page.next) break;
      request.after = page.next;
    }
    assert.deepEqual(got, this.said);
  }
}

const tool = { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } };
const created = await call("session.create", {
  id: ulid(), label: LABEL, system: "You are terse.", tools: [tool], limits: { context_window: 128_000 },
});
const a = new Agent(created.id);

// A question with two tool calls at once.
const question = await a.ask("What is the weather in Oslo and in Rome?");
await a.converse();
await a.check();

// Regenerate: the head goes back to the question; the first answer stays.
await call(`session.move.${a.session}`, { id: ulid(), to: question.id });
a.said.length = 1;
await a.converse();

// A long talk that the model's window can't hold.
await a.ask("Here is everything." + " Everything.".repeat(4000));
await a.converse();
await a.ask("And now?");
await a.converse();
await a.check();

// A fork from the question: another line of work with the same beginning.
const forked = await call(`fork.create.${a.session}`, { id: ulid(), turn: question.id, label: `${LABEL}-fork` });
const fork = new Agent(forked.id, a.said.slice(0, 1));
await fork.ask("Never mind. Only Rome.");
await fork.converse();
await fork.check();

console.log(a.session, fork.session);
await nc.drain();
