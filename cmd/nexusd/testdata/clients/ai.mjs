// The AI SDK with its Open Responses provider: a text, a stream, a loop with a tool.
// Arguments: the base URL and the model.
import assert from "node:assert/strict";
import { createOpenResponses } from "@ai-sdk/open-responses";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const [baseURL, model] = process.argv.slice(2);
const nexus = createOpenResponses({ name: "nexus", url: `${baseURL}/responses`, apiKey: "none" });
const plain = await generateText({ model: nexus(model), prompt: "exactly: good morning" });
assert.equal(plain.text, "good morning");
const stream = streamText({ model: nexus(model), prompt: "exactly: word by word" });
let text = "";
for await (const piece of stream.textStream) text += piece;
assert.equal(text, "word by word");
let used = 0;
const loop = await generateText({
  model: nexus(model), prompt: "the weather please", stopWhen: stepCountIs(4),
  tools: {
    get_weather: tool({
      description: "The weather of a place.", inputSchema: z.object({ place: z.string() }),
      execute: async () => { used++; return "rain"; },
    }),
  },
});
assert.equal(used, 1);
assert.match(loop.text, /rain/);
console.log("ai: ok");
