// A graph of one node, with LangGraph's checkpointer of SQLite or PostgreSQL, that saves a checkpoint
// for each turn. It reads requests as JSON lines, and answers each with a line that repeats the
// request's id, in any order. The end of its input ends it.
//
//   node peer.mjs FILE CLIENTS BYTES FULL|NORMAL
//   node peer.mjs FOLDER-OF-THE-SOCKET CLIENTS BYTES postgres
import { createInterface } from "node:readline";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";

const [place, clientsText, bytesText, synchronous] = process.argv.slice(2);
const clients = Number(clientsText), bytes = Number(bytesText);
const vocabulary = "the file test of returns error line to and function with value in for that is list path read write open close build run".split(" ");

// words is always the same text for the same x.
function words(x, n) {
  let out = "";
  for (x >>>= 0; out.length < n; ) {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    out += vocabulary[(x >>> 16) % vocabulary.length] + " ";
    if ((x >>> 13) % 8 === 0) out += x.toString(16) + " ";
  }
  return out.slice(0, n);
}
const question = (c, i) => words(c * 1000003 + i * 2, bytes >> 1);
const answer = (c, i) => words(c * 1000003 + i * 2 + 1, bytes - (bytes >> 1));
const thread = (c) => ({ configurable: { thread_id: `session-${c}`, client: c } });

// open makes a checkpointer with a connection of its own.
async function open() {
  if (synchronous !== "postgres") {
    const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
    const saver = SqliteSaver.fromConnString(place);
    saver.setup();
    saver.db.pragma(`synchronous=${synchronous}`);
    const set = (name) => saver.db.pragma(name, { simple: true });
    return { saver, ready: { mode: set("journal_mode"), level: set("synchronous") }, close: async () => saver.db.close() };
  }
  const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
  const { default: pg } = await import("pg");
  const pool = new pg.Pool({ host: place, user: "postgres", database: "postgres", max: Math.min(clients, 64) });
  const saver = new PostgresSaver(pool);
  await saver.setup();
  return { saver, ready: {}, close: () => pool.end() };
}

const { saver, ready, close } = await open();
const calls = []; // of each client, the call that runs: its answer, and when the node had the state
const text = (messages) => messages.reduce((n, m) => n + Buffer.byteLength(m.content), 0);
const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", (state, config) => {
    const call = calls[config.configurable.client];
    call.reached = performance.now();
    call.messages = state.messages;
    return { messages: [new AIMessage(call.answer)] };
  })
  .addEdge("__start__", "model")
  .addEdge("model", "__end__")
  .compile({ checkpointer: saver });

// invoke runs the graph once. Durability "exit": one checkpoint for each call of the graph, its cheapest choice.
async function invoke(c, messages, answer) {
  const call = (calls[c] = { answer });
  await graph.invoke({ messages }, { ...thread(c), durability: "exit" });
  return { rest: performance.now() - call.reached, messages: call.messages };
}

// client appends turns of its own text for a while.
async function client(c, until, stored, took) {
  while (performance.now() < until) {
    const began = performance.now();
    const i = stored[c] + 1;
    await invoke(c, [new HumanMessage(question(c, i))], answer(c, i));
    took.push(performance.now() - began);
    stored[c] = i;
    await new Promise(setImmediate); // SQLite's driver is synchronous: let the other clients run
  }
}

// check reads the newest checkpoint of each thread over a connection of its own.
async function check(stored) {
  const fresh = await open();
  for (let c = 0; c < clients; c++) {
    const tuple = await fresh.saver.getTuple(thread(c));
    const messages = tuple?.checkpoint.channel_values.messages ?? [];
    if (messages.length !== 2 * stored[c]) throw new Error(`client ${c} has ${messages.length} messages, ${stored[c]} turns were acknowledged`);
    for (let i = 1; i <= stored[c]; i++) {
      if (messages[2 * i - 2].content !== question(c, i) || messages[2 * i - 1].content !== answer(c, i)) throw new Error(`turn ${i} of client ${c} has other content`);
    }
  }
  await fresh.close();
}

const commands = {
  async run({ ms, stored }) {
    const took = [];
    const until = performance.now() + ms;
    await Promise.all(Array.from({ length: clients }, (_, c) => client(c, until, stored, took)));
    return { took, stored };
  },
  async check({ stored }) {
    await check(stored);
    return {};
  },
  // fill stores turns as one checkpoint: each of its own would have the whole state.
  async fill({ client, turns }) {
    const messages = turns.flatMap(([question, answer]) => [new HumanMessage(question), new AIMessage(answer)]);
    const last = messages.pop();
    await invoke(client, messages, last.content);
    return {};
  },
  // turn returns the milliseconds after the node had the state, and the state's bytes.
  async turn({ client, question, answer }) {
    const { rest, messages } = await invoke(client, [new HumanMessage(question)], answer);
    return { rest, read: text(messages) - Buffer.byteLength(question) };
  },
  async recall({ client }) {
    const state = await graph.getState(thread(client));
    return { read: text(state.values.messages ?? []) };
  },
};

console.log(JSON.stringify(ready));
const running = new Set();
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const answered = Promise.resolve(commands[request.command](request))
    .catch((e) => ({ error: String(e?.stack ?? e) }))
    .then((reply) => {
      console.log(JSON.stringify({ ...reply, id: request.id }));
      running.delete(answered);
    });
  running.add(answered);
}
await Promise.all(running);
await close();
