// The core of Nexus with nothing but a NATS client: append, a retry with the same id,
// context, fork, rewind, compact, and an error. docs/GUIDE.md explains it.
//
//   npm install
//   node core.mjs
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";
import { ulid } from "ulid";
import { readFileSync } from "node:fs";

const { NEXUS_URL = "nats://127.0.0.1:4222", NEXUS_CREDS: file } = process.env;
const authenticator = file && nkeyAuthenticator(new TextEncoder().encode(readFileSync(file, "utf8").trim()));
const nc = await connect({ servers: NEXUS_URL, ...(file && { authenticator }) });

class Refused extends Error {
  constructor({ code, message, details }) {
    super(`${code}: ${message}`);
    Object.assign(this, { code, details });
  }
}

async function call(verb, request) {
  const reply = await nc.request(`nexus.v1.default.main.${verb}`, JSON.stringify(request), { timeout: 35_000 });
  if (reply.headers?.get("Nats-Service-Error-Code")) throw new Refused(reply.json().error);
  return reply.json();
}

const text = (role, content) => ({ role, parts: [{ type: "text", content }] });

const session = (await call("session.create", { system: "You are terse." })).id;

const question = { id: ulid(), messages: [text("user", "What is a ledger?")] };
const first = await call(`turn.append.${session}`, question);

const again = await call(`turn.append.${session}`, question);
console.log("one turn:", again.hash === first.hash);

let context = await call(`context.get.${session}`, { format: "openai" });
console.log("messages for the model:", context.messages.length);
const answer = await call(`turn.append.${session}`, { messages: [], response: text("assistant", "A record that only grows.") });

for (let i = 0; i < 3; i++)
  await call(`turn.append.${session}`, { messages: [text("user", "Go on.")], response: text("assistant", "A page of a long answer. ".repeat(40)) });
const run = await call(`compaction.run.${session}`, { policy: { name: "balanced", set: { keep_tokens: 50 } } });
console.log("compaction:", run.state);

const fork = (await call(`fork.create.${session}`, { turn: answer.id })).id;
await call(`turn.append.${fork}`, { messages: [text("user", "And a journal?")] });
context = await call(`context.get.${fork}`, { format: "openai" });
console.log("messages on the fork:", context.messages.length);

const moved = await call(`session.move.${session}`, { to: first.id });
console.log("head at depth:", moved.depth);

try {
  await call(`turn.append.${session}`, { parent: answer.id, messages: [text("user", "Too late.")] });
} catch (err) {
  if (!(err instanceof Refused)) throw err;
  console.log("refused:", err.code, err.details.head === first.id);
}
await nc.drain();
