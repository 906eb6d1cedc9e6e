// Carries out tool calls with the SDK for JavaScript: one JSON object on each line of standard input, {id, name, arguments, timeout};
// one on each line of output, {id, result}, {id, error} or {id, progress}.
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const client = new Client({ name: "e2e", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
await client.listTools(); // so that results are checked against their schemas

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
for await (const line of createInterface({ input: process.stdin })) {
  const { id, name, arguments: args, timeout } = JSON.parse(line);
  client
    .callTool({ name, arguments: args }, undefined, { timeout, onprogress: (progress) => say({ id, progress }) })
    .then((result) => say({ id, result }), (error) => say({ id, error: String(error) }));
}
await client.close();
