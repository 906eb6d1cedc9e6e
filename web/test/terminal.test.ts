import { describe, expect, test } from "vitest";
import { TerminalSocket, type TerminalHost } from "../src/proto/terminal";

class FakeSocket {
  readyState = 0;
  binaryType = "";
  sent: (string | Uint8Array)[] = [];
  onopen: () => void = () => {};
  onmessage: (m: { data: ArrayBuffer | string }) => void = () => {};
  onclose: (c: { code: number; reason: string }) => void = () => {};
  send(data: string | Uint8Array): void { this.sent.push(data); }
  close(): void { this.readyState = 3; }
  up(offset: number): void {
    this.readyState = 1;
    this.onopen();
    this.say({ type: "offset", offset });
  }
  say(frame: object): void { this.onmessage({ data: JSON.stringify(frame) }); }
  show(bytes: number): void { this.onmessage({ data: new ArrayBuffer(bytes) }); }
  drop(code = 1006, reason = ""): void {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

function terminal(exists = true) {
  const sockets: FakeSocket[] = [];
  const opened: (number | undefined)[] = [];
  const timers: (() => void)[] = [];
  const told: string[] = [];
  const undrawn: (() => void)[] = [];
  const host: TerminalHost = {
    open: (after) => {
      opened.push(after);
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    exists: async () => exists,
    later: (work) => { timers.push(work); return () => {}; },
  };
  const socket = new TerminalSocket(host, {
    data: (bytes, drawn) => { told.push(`${bytes.length} bytes`); undrawn.push(drawn); },
    gap: (bytes) => told.push(`gap of ${bytes}`),
    link: (link) => told.push(link),
    ended: (code) => told.push(`ended ${code}`),
    refused: (why) => told.push(why),
  });
  socket.start();
  const again = async () => {
    for (const timer of timers.splice(0)) timer();
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  return { socket, sockets, opened, told, undrawn, again };
}

describe("a terminal's socket", () => {
  test("goes on after the last byte, and says its size again", async () => {
    const t = terminal();
    t.socket.resize(24, 80);
    t.sockets[0]?.up(1000);
    t.sockets[0]?.show(5);
    t.sockets[0]?.drop();
    await t.again();
    t.sockets[1]?.up(1005);
    expect(t.opened).toEqual([undefined, 1005]);
    expect(t.told).toEqual(["connecting", "up", "5 bytes", "down", "connecting", "up"]);
    expect(t.sockets.map((s) => s.sent)).toEqual([['{"type":"resize","rows":24,"cols":80}'], ['{"type":"resize","rows":24,"cols":80}']]);
  });
  test("is one, however often the browser says that it is online again", async () => {
    const t = terminal();
    t.sockets[0]?.up(0);
    t.sockets[0]?.drop();
    t.socket.hurry();
    t.socket.hurry();
    await t.again(); // the timer, too
    expect(t.sockets.length).toBe(2);
  });
  test("tells what was left out", async () => {
    const t = terminal();
    t.sockets[0]?.up(0);
    t.sockets[0]?.show(5);
    t.sockets[0]?.drop();
    await t.again();
    t.sockets[1]?.up(5);
    t.sockets[1]?.say({ type: "offset", offset: 105 });
    expect(t.told).toContain("gap of 100");
  });
  test("lets go while more comes than can be drawn", () => {
    const t = terminal();
    t.sockets[0]?.up(0);
    for (let i = 0; i < 5; i++) t.sockets[0]?.show(1 << 20);
    expect(t.told.at(-1)).toBe("held");
    expect(t.sockets[0]?.readyState).toBe(3);
    t.sockets[0]?.show(1 << 20); // what the browser still had
    expect(t.undrawn.length).toBe(5);
    for (const drawn of t.undrawn.splice(0, 4)) drawn();
    expect(t.opened).toEqual([undefined]);
    for (const drawn of t.undrawn) drawn();
    expect(t.opened).toEqual([undefined, 5 << 20]);
  });
  test("ends with its shell, and does not come back", async () => {
    const t = terminal();
    t.sockets[0]?.up(0);
    t.sockets[0]?.say({ type: "exit", code: 3 });
    t.sockets[0]?.drop(1000, "exit");
    await t.again();
    expect(t.told.slice(-2)).toEqual(["ended", "ended 3"]);
    expect(t.opened.length).toBe(1);
  });
  test("ends when somebody closes it, or it is not there when it comes back", async () => {
    const closed = terminal();
    closed.sockets[0]?.up(0);
    closed.sockets[0]?.drop(1000, "terminal_closed");
    expect(closed.told.at(-1)).toBe("ended undefined");
    const gone = terminal(false);
    gone.sockets[0]?.up(0);
    gone.sockets[0]?.drop();
    await gone.again();
    expect(gone.told.at(-1)).toBe("ended undefined");
    expect(gone.opened.length).toBe(1);
  });
});
