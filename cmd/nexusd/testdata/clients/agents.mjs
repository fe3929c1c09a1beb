// An agent of @openai/agents with a tool, two runs on one chain, streamed and not.
// Arguments: the base URL and the model.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";

const [baseURL, model] = process.argv.slice(2);
setTracingDisabled(true);
const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ baseURL, apiKey: "none" }), useResponses: true }) });
let used = 0;
const agent = new Agent({
  name: "forecaster", model, instructions: "Be brief.",
  tools: [tool({
    name: "get_weather", description: "The weather of a place.", parameters: z.object({ place: z.string() }),
    execute: async () => { used++; return "rain"; },
  })],
});
const first = await runner.run(agent, "the weather please");
assert.equal(used, 1);
assert.equal(first.finalOutput, "The tools say: rain");
const second = await runner.run(agent, "exactly: and now this", { previousResponseId: first.lastResponseId });
assert.equal(second.finalOutput, "and now this");
const streamed = await runner.run(agent, "exactly: word by word", { previousResponseId: second.lastResponseId, stream: true });
let text = "";
for await (const piece of streamed.toTextStream()) text += piece;
await streamed.completed;
assert.equal(text, "word by word");
console.log("agents: ok");
