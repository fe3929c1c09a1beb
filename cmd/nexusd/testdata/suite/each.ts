// Runs single tests of the official suite, one after the other, each against a server of its
// own. First it prints the ids of all tests as a JSON array. Then it reads lines
// "ID BASE_URL MODEL" and prints for each what the suite says, one JSON object a line.
import { createInterface } from "node:readline";
import { runAllTests, testTemplates } from "../src/lib/compliance-tests";

const print = (value: unknown) => process.stdout.write(JSON.stringify(value) + "\n");

print(testTemplates.map((template) => template.id));
for await (const line of createInterface({ input: process.stdin })) {
  const [id, baseUrl, model] = line.split(" ");
  const [result] = await runAllTests(
    { baseUrl, apiKey: "test", model, authHeaderName: "Authorization", useBearerPrefix: true, runtime: "server" },
    () => {},
    testTemplates.filter((template) => template.id === id),
  );
  print({ id, status: result.status, errors: result.errors ?? [] });
}
process.exit(0);
