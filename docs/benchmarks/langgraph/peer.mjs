// A graph of one node, with LangGraph's SQLite checkpointer, that saves a checkpoint for each
// turn. It reads commands as JSON lines and answers each with a line.
//
//   node peer.mjs FILE CLIENTS BYTES FULL|NORMAL
import { createInterface } from "node:readline";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { MessagesAnnotation, StateGraph } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";

const [file, clientsText, bytesText, synchronous] = process.argv.slice(2);
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
const thread = (c) => ({ configurable: { thread_id: `session-${c}` } });

function open() {
  const saver = SqliteSaver.fromConnString(file);
  saver.setup();
  saver.db.pragma(`synchronous=${synchronous}`);
  return saver;
}

const saver = open();
const mode = saver.db.pragma("journal_mode", { simple: true });
const level = saver.db.pragma("synchronous", { simple: true });
const graph = new StateGraph(MessagesAnnotation)
  .addNode("model", (state, config) => ({ messages: [new AIMessage(answer(config.configurable.client, config.configurable.turn))] }))
  .addEdge("__start__", "model")
  .addEdge("model", "__end__")
  .compile({ checkpointer: saver });

async function client(c, until, stored, took) {
  while (performance.now() < until) {
    const began = performance.now();
    const i = stored[c] + 1;
    // durability "exit": one checkpoint for each call of the graph, its cheapest choice.
    await graph.invoke({ messages: [new HumanMessage(question(c, i))] }, { configurable: { thread_id: `session-${c}`, client: c, turn: i }, durability: "exit" });
    took.push(performance.now() - began);
    stored[c] = i;
    await new Promise(setImmediate); // the driver is synchronous: let the other clients run
  }
}

// check reads the newest checkpoint of each thread over a connection of its own.
async function check(stored) {
  const fresh = open();
  for (let c = 0; c < clients; c++) {
    const tuple = await fresh.getTuple(thread(c));
    const messages = tuple?.checkpoint.channel_values.messages ?? [];
    if (messages.length !== 2 * stored[c]) throw new Error(`client ${c} has ${messages.length} messages, ${stored[c]} turns were acknowledged`);
    for (let i = 1; i <= stored[c]; i++) {
      if (messages[2 * i - 2].content !== question(c, i) || messages[2 * i - 1].content !== answer(c, i)) throw new Error(`turn ${i} of client ${c} has other content`);
    }
  }
  fresh.db.close();
}

console.log(JSON.stringify({ mode, level }));
for await (const line of createInterface({ input: process.stdin })) {
  const { command, ms, stored } = JSON.parse(line);
  try {
    if (command === "run") {
      const took = [];
      const until = performance.now() + ms;
      await Promise.all(Array.from({ length: clients }, (_, c) => client(c, until, stored, took)));
      console.log(JSON.stringify({ took, stored }));
    } else {
      await check(stored);
      console.log(JSON.stringify({}));
    }
  } catch (e) {
    console.log(JSON.stringify({ error: String(e?.stack ?? e) }));
  }
}
saver.db.close();
