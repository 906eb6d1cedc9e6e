// Answers a call while its WebSocket is lost but has not yet said so, and prints how many connections that took.
// Usage: lostsocket.mjs MODULE
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
        console.log(sockets.length);
        process.exit();
      }
    });
  }
  close() {}
  lose() {
    this.readyState = 2;
    setTimeout(() => { this.readyState = 3; this.onclose({ code: 1006, reason: "" }); });
  }
}

const session = await new Talaria({
  url: `http://127.0.0.1:${server.address().port}`, token: "t", WebSocket: Socket,
}).session("s");
await session.tool({ name: "once", idempotent: true, run: () => sockets[0].lose() });
sockets[0].receive({ type: "tool_request", call_id: "c", execution_id: "e", tool: "once", arguments: {}, deadline: "2026-01-02T12:00:00Z" });
