// A conversation with the openai package: a chain with a tool, a fork, a retry, a
// compaction, a stream, a stored conversation. Arguments: the base URL and the model.
import assert from "node:assert/strict";
import OpenAI from "openai";

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none" });
const weather = {
  type: "function", name: "get_weather", description: "The weather of a place.", strict: true,
  parameters: { type: "object", properties: { place: { type: "string" } }, required: ["place"], additionalProperties: false },
};

// A tool loop.
const asked = await client.responses.create({ model, input: "the weather please", instructions: "Be brief.", tools: [weather] });
const call = asked.output.find((i) => i.type === "function_call");
assert.equal(call.name, "get_weather");
const told = await client.responses.create({
  model, previous_response_id: asked.id, tools: [weather],
  input: [{ type: "function_call_output", call_id: call.call_id, output: "rain" }],
});
assert.equal(told.output_text, "The tools say: rain");
assert.equal(told.nexus.session, asked.nexus.session);

// A stream on top of it.
const types = [];
let text = "";
for await (const e of await client.responses.create({ model, previous_response_id: told.id, input: "exactly: one two three", stream: true })) {
  types.push(e.type);
  if (e.type === "response.output_text.delta") text += e.delta;
}
assert.equal(text, "one two three");
assert.equal(types[0], "response.created");
assert.equal(types.at(-1), "response.completed");

// A fork at the older answer: it does not see the stream's turn.
const fork = await client.responses.create({ model, previous_response_id: told.id, input: "exactly: another way" });
assert.equal(fork.output_text, "another way");
assert.notEqual(fork.nexus.session, told.nexus.session);
assert.ok(fork.nexus.forked_from);

// A retry with a key is the same response.
const key = { headers: { "Idempotency-Key": `retry-${process.pid}-${Date.now()}` } };
const once = await client.responses.create({ model, input: "exactly: only once" }, key);
const twice = await client.responses.create({ model, input: "exactly: only once" }, key);
assert.equal(once.id, twice.id);

// Parallel calls.
const both = await client.responses.create({ model, input: "#both", tools: [weather, { ...weather, name: "get_time" }] });
const calls = both.output.filter((i) => i.type === "function_call");
assert.equal(calls.length, 2);
const answered = await client.responses.create({
  model, previous_response_id: both.id,
  input: calls.map((c) => ({ type: "function_call_output", call_id: c.call_id, output: c.name })),
});
assert.equal(answered.output_text, "The tools say: get_weather; get_time");

// Reading back, and deleting.
assert.equal((await client.responses.retrieve(told.id)).output_text, "The tools say: rain");
assert.ok((await client.responses.inputItems.list(told.id)).data.length > 0);
await client.responses.delete(once.id);
await assert.rejects(client.responses.retrieve(once.id), (e) => e.status === 404);

// A compaction is a window that the client passes on.
const window = await client.responses.compact({ model, previous_response_id: fork.id });
assert.ok(window.output.some((i) => i.type === "compaction"));
const after = await client.responses.create({ model, input: [...window.output, { role: "user", content: "exactly: after it" }] });
assert.equal(after.output_text, "after it");

// A conversation is a session.
const conversation = await client.conversations.create({});
for (const t of ["first", "second"]) {
  const r = await client.responses.create({ model, conversation: conversation.id, input: `exactly: ${t}` });
  assert.equal(r.output_text, t);
}
assert.ok((await client.conversations.items.list(conversation.id)).data.length >= 4);

// An error is an error of the library.
await assert.rejects(client.responses.create({ model, input: "#error=400" }), (e) => e.status === 400);
console.log("openai: ok");
