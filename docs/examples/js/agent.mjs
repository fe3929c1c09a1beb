// A complete agent loop on Nexus with nothing but a NATS client: it opens a
// session, asks a model over HTTP, runs the tools that the model calls, survives
// a refused context, regenerates an answer, forks, and reads everything back.
// Started again under the same label it finishes what it had begun, and goes on
// in the same session.
//
//   npm install
//   MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3 node agent.mjs
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import { ulid } from "ulid";
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";

const { NEXUS_URL = "nats://127.0.0.1:4222", MODEL_URL = "http://127.0.0.1:11434/v1", MODEL = "any", LABEL = "demo" } = process.env;

// The file of this agent's key: NEXUS_CREDS, else the one that nexusd wrote for its
// address; undefined if there is none.
function credentials() {
  const { NEXUS_CREDS, XDG_CONFIG_HOME, HOME = homedir() } = process.env;
  const name = NEXUS_URL.replace("nats://", "").replace("localhost", "127.0.0.1").replace(":", "_");
  const file = `${XDG_CONFIG_HOME || `${HOME}/.config`}/nexus/contexts/${name}.json`;
  return NEXUS_CREDS ?? (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")).agent : undefined);
}
const key = credentials();
const nc = await connect({ servers: NEXUS_URL, ...(key && { authenticator: nkeyAuthenticator(new TextEncoder().encode(readFileSync(key, "utf8").trim())) }) });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// JSON in which integers stay as they are: those that a number can't hold (from
// 2^53 on) are read as BigInt, and written as they were.
const mark = `integer ${ulid()} `;
function decode(text) {
  const plain = JSON.parse(text); // throws where it is no JSON
  if (!/\d{16}/.test(text)) return plain;
  const token = /"(?:[^"\\]+|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
  const marked = text.replace(token, (t) => (/^-?\d{16,}$/.test(t) ? `"${mark}${t}"` : t));
  return JSON.parse(marked, (_, v) => (typeof v === "string" && v.startsWith(mark) ? BigInt(v.slice(mark.length)) : v));
}
function encode(value) {
  const text = JSON.stringify(value, (_, v) => (typeof v === "bigint" ? mark + v : v));
  return text.replaceAll(new RegExp(`"${mark}(-?\\d+)"`, "g"), "$1");
}

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
      const m = await nc.request(`nexus.v1.default.main.${verb}`, encode(request), { timeout: 35_000 });
      if (!m.headers?.get("Nats-Service-Error-Code")) return decode(m.string());
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

// What the model wrote as arguments need not be JSON: then it is kept as a text.
function toolArguments(written) {
  try {
    return decode(written || "{}");
  } catch {
    return written;
  }
}

// The tool. A model that called it wrongly is told so.
function weather({ name, arguments: args }) {
  if (name !== "weather" || !args?.city) return { response: 'there is only weather {"city": …}', is_error: true };
  return { response: `sunny in ${encode(args)}` };
}

class Agent {
  constructor(session) {
    this.session = session;
  }

  // The conversation of a label: that of a run before this one, else one that
  // begin makes.
  static async open(label, begin) {
    const found = await call("session.resolve", { label }).catch((err) => {
      if (err.code !== "not_found") throw err;
    });
    const a = new Agent((found ?? (await begin())).id);
    a.said = await a.texts();
    if (found) await a.resume();
    return a;
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

  // The messages of the next model call. A long context comes in pages, a message
  // that is longer than a page in pieces. What the last one had is kept.
  async context(verb, request) {
    const had = this.had;
    if (had && verb === "context.get") request.have = { fingerprint: had.fingerprint, preamble_digest: had.preamble_digest };
    let all;
    for (let partial = ""; ; ) {
      const page = await call(`${verb}.${this.session}`, request).catch((err) => {
        if (err.code !== "conflict" || !request.after) throw err;
      });
      if (!page) { // the settings changed since the first page: begin again
        all = request.after = undefined;
        partial = "";
        continue;
      }
      all ??= { messages: had?.messages.slice(0, page.keep ?? 0) ?? [], tools: page.keep_preamble ? had.tools : undefined };
      all.messages.push(...page.messages);
      partial += page.partial ?? "";
      if (page.partial_end) {
        all.messages.push(decode(partial));
        partial = "";
      }
      if (page.tools?.length) all.tools = page.tools;
      if (!page.next) return (this.had = { ...all, fingerprint: page.fingerprint, preamble_digest: page.preamble_digest });
      request.after = page.next;
    }
  }

  // Lets the model answer the conversation so far, and stores the answer.
  async answer() {
    let { messages, tools } = await this.context("context.get", { format: "openai" });
    for (let attempt = 0; ; attempt++) {
      const r = await fetch(`${MODEL_URL}/chat/completions`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: encode({ model: MODEL, messages, tools }),
      });
      const body = await r.text();
      if (r.ok) return this.store(JSON.parse(body));
      if (attempt === 5) throw new Error(`the model's server: ${r.status}: ${body}`);
      if (r.status === 429 || r.status >= 500) {
        await sleep(1000 * Number(r.headers.get("Retry-After") ?? 1));
        continue;
      }
      // Too long? Nexus reads the provider's words, compacts, and gives the context
      // that is left. Anything else it refuses, and so do we.
      console.error(`the model refused: ${r.status}: ${body}`);
      ({ messages, tools } = await this.context("context.overflow", { id: ulid(), error: body, status: r.status, format: "openai" }));
    }
  }

  // The model's message becomes the response of the turn before it.
  async store({ choices: [{ message, finish_reason }], usage }) {
    const calls = (message.tool_calls ?? []).map(({ id, function: f }) => ({ type: "tool_call", id, name: f.name, arguments: toolArguments(f.arguments) }));
    const parts = [...calls];
    if (message.content) {
      parts.unshift({ type: "text", content: message.content });
      this.said.push(message.content);
    }
    const t = await this.append([], {
      response: { role: "assistant", parts, finish_reason },
      usage: { input_tokens: usage?.prompt_tokens ?? 0, output_tokens: usage?.completion_tokens ?? 0 },
    });
    console.error(`${calls.length} calls, ${JSON.stringify(message.content)}; compaction is ${t.compaction.state}`);
    return calls;
  }

  // Runs tools side by side. Results are appended as they come in.
  run(calls) {
    return Promise.all(calls.map(async (c) => this.append([{ role: "tool", parts: [{ type: "tool_call_response", id: c.id, ...(await weather(c)) }] }])));
  }

  // Answers until the model calls no more tools.
  async converse() {
    for (let calls = await this.answer(); calls.length > 0; calls = await this.answer()) await this.run(calls);
  }

  // Finishes what a run before this one left: calls without a result, and a turn
  // without an answer.
  async resume() {
    const done = new Set();
    let asked = false;
    let open = [];
    for await (const t of this.turns("desc")) {
      if (t.type !== "normal") continue;
      for (const m of t.messages ?? []) for (const p of m.parts) if (p.type === "tool_call_response") done.add(p.id);
      if (t.response) {
        open = t.response.parts.filter((p) => p.type === "tool_call" && !done.has(p.id));
        break;
      }
      asked = true;
    }
    if (!asked && open.length === 0) return;
    console.error(`resuming: ${open.length} calls are open`);
    await this.run(open);
    await this.converse();
  }

  // The conversation, from its beginning or ("desc") from its head.
  async *turns(order) {
    const request = { full: true, order };
    for (;;) {
      const page = await call(`turn.list.${this.session}`, request);
      yield* page.turns;
      if (!page.next) return;
      request.after = page.next;
    }
  }

  // What was said, in order. The content of a large text is apart (blob.get) and
  // not read here.
  async texts() {
    const said = [];
    for await (const t of this.turns("asc")) {
      if (t.type !== "normal") continue;
      for (const m of [...(t.messages ?? []), t.response].filter(Boolean)) {
        said.push(...m.parts.filter((p) => p.type === "text").map((p) => p.content ?? ""));
      }
    }
    return said;
  }

  // Reads the conversation back: every text that was said is there, in order,
  // whatever the model was shown.
  async check() {
    assert.deepEqual(await this.texts(), this.said);
  }
}

const tool = { type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } };
const a = await Agent.open(LABEL, () =>
  call("session.create", { id: ulid(), label: LABEL, system: "You are terse.", tools: [tool], limits: { context_window: 128_000 } }),
);

// A question with two tool calls at once.
const question = await a.ask("What is the weather in Oslo and in Rome?");
const asked = a.said.length;
await a.converse();
await a.check();

// Regenerate: the head goes back to the question; the first answer stays.
await call(`session.move.${a.session}`, { id: ulid(), to: question.id });
a.said.length = asked;
await a.converse();

// A long talk that the model's window can't hold.
await a.ask("Here is everything." + " Everything.".repeat(4000));
await a.converse();
await a.ask("And now?");
await a.converse();
await a.check();

// A fork from the question: another line of work with the same beginning.
const fork = await Agent.open(`${LABEL}-fork`, () => call(`fork.create.${a.session}`, { id: ulid(), turn: question.id, label: `${LABEL}-fork` }));
await fork.ask("Never mind. Only Rome.");
await fork.converse();
await fork.check();

console.log(a.session, fork.session);
await nc.drain();
