// Gets a call of a tool that is not provided, and prints the answer.
// Usage: unknowntool.mjs MODULE
import { createServer } from "node:http";

const { Talaria } = await import(process.argv[2]);
const server = createServer((_, response) => response.end(JSON.stringify({ id: "s", log_id: "l" })));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));

const sockets = [];
class Socket {
  readyState = 1;
  constructor() {
    sockets.push(this);
    setTimeout(() => { this.onopen(); this.receive({ type: "hello" }); });
  }
  receive(frame) { this.onmessage({ data: JSON.stringify(frame) }); }
  send(text) {
    const frame = JSON.parse(text);
    setTimeout(() => {
      this.receive({ type: "reply", id: frame.id, ok: true, result: { accepted: [], rejected: [] } });
      if (frame.type === "tool_result") {
        console.log(frame.call_id, frame.error.message);
        process.exit();
      }
    });
  }
  close() {}
}

const session = await new Talaria({
  url: `http://127.0.0.1:${server.address().port}`, token: "t", WebSocket: Socket,
}).session("s");
await session.tool({ name: "here", run: () => 1 });
sockets[0].receive({ type: "tool_request", call_id: "c", execution_id: "e", tool: "gone", arguments: {}, deadline: "2026-01-02T12:00:00Z" });
setTimeout(() => process.exit(), 3_000); // nothing answers
