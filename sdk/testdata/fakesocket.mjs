// A session of a server that accepts all tools, and the WebSockets that its client opens. answered is called with each
// answer to a call.
import { createServer } from "node:http";

export async function open(module, answered) {
  const { Talaria } = await import(module);
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
    call(tool) {
      this.receive({ type: "tool_request", call_id: "c", execution_id: "e", tool, arguments: {}, deadline: "2026-01-02T12:00:00Z" });
    }
    send(text) {
      const frame = JSON.parse(text);
      setTimeout(() => {
        this.receive({ type: "reply", id: frame.id, ok: true, result: { accepted: [], rejected: [] } });
        if (frame.type === "tool_result") answered(frame);
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
  return { session, sockets };
}
