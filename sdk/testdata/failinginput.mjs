// Runs a cell whose onInput fails, and prints what run rejects with and how often the cell was interrupted.
// Usage: failinginput.mjs MODULE
import { createServer } from "node:http";

const { Talaria } = await import(process.argv[2]);
let interrupts = 0;
const server = createServer((request, response) => {
  if (request.url.endsWith("/executions")) {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const event = { type: "input_request", seq: 1, execution_id: "c", request_id: "r", prompt: "", password: false };
    response.write(`data: ${JSON.stringify(event)}\n\n`);
    return;
  }
  if (request.url.endsWith("/interrupt")) interrupts++;
  response.end(JSON.stringify({ id: "s", log_id: "l" }));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const session = await new Talaria({ url: `http://127.0.0.1:${server.address().port}`, token: "t" }).session("s");
const onInput = () => { throw new Error("no answer"); };
const e = await session.run("input()", { id: "c", onInput }).catch((e) => e);
console.log(e.message, interrupts);
process.exit();
