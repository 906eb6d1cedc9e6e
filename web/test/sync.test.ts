import { describe, expect, test } from "vitest";
import { change, noDocument } from "../src/log/cells";
import { mergeDocuments } from "../src/log/merge";
import { baseFor, DocumentSync, type DocumentIO, type Kept } from "../src/log/sync";
import { large, SessionSocket, type Host, type Listener } from "../src/proto/socket";
import type { Document, Event } from "../src/proto/types";

// A server's document, and the timers of whoever uses it.
class Fake {
  doc: Document = { ...noDocument, cells: [{ id: "a", cell_type: "code", source: "1" }, { id: "b", cell_type: "code", source: "2" }] };
  down = false;
  refuses = 0; // the status of what refuses every save
  loses = false; // the answer of the next save
  logEnd = 100;
  timers: (() => void)[] = [];
  puts = 0;

  io(): DocumentIO {
    return {
      get: async () => this.doc,
      put: async (doc) => {
        this.puts++;
        if (this.down) throw Object.assign(new Error("away"), { code: "unreachable" });
        if (this.refuses) throw Object.assign(new Error("refused"), { status: this.refuses, code: "too_large" });
        if (doc.revision !== this.doc.revision) throw Object.assign(new Error("conflict"), { code: "revision_conflict" });
        if (doc.through > this.logEnd) throw Object.assign(new Error("field through must be a seq of the log"), { code: "invalid_request" });
        this.doc = { ...doc, revision: doc.revision + 1 };
        if (this.loses) throw Object.assign(new Error("lost"), { code: "unreachable" });
        return this.doc;
      },
      logEnd: () => this.logEnd,
      later: (work) => {
        this.timers.push(work);
        return () => (this.timers = this.timers.filter((t) => t !== work));
      },
    };
  }

  async rest(): Promise<void> {
    for (let round = 0; round < 20; round++) {
      for (const timer of this.timers.splice(0)) timer();
      for (let i = 0; i < 20; i++) await Promise.resolve();
    }
  }
}

function tab(server: Fake) {
  const told = { docs: [] as Document[], saved: [] as string[], final: 0, conflicts: 0 };
  const sync = new DocumentSync(server.io(), {
    document: (doc) => told.docs.push(doc), conflicts: (n) => (told.conflicts += n),
    saved: (state, _why, final) => {
      told.saved.push(state);
      if (final) told.final++;
    },
  });
  const type = (id: string, source: string) => sync.edit({ ...sync.mine, cells: change(sync.mine.cells, id, { source }) });
  return { sync, told, type };
}

const sources = (doc: Document) => doc.cells.map((c) => c.source).join("|");

describe("the document of two tabs", () => {
  test("is saved after a rest, once", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    one.type("a", "10");
    one.type("a", "100");
    await server.rest();
    expect([sources(server.doc), server.puts, one.told.saved.at(-1)]).toEqual(["100|2", 1, "saved"]);
  });
  test("has what both wrote, whoever was first", async () => {
    const server = new Fake();
    const [one, two] = [tab(server), tab(server)];
    await Promise.all([one.sync.load(), two.sync.load()]);
    one.type("a", "one");
    two.type("b", "two");
    await server.rest();
    expect(sources(server.doc)).toBe("one|two");
    one.sync.remote(server.doc.revision);
    await server.rest();
    expect(sources(one.sync.mine)).toBe("one|two");
  });
  test("keeps both texts of one cell", async () => {
    const server = new Fake();
    const [one, two] = [tab(server), tab(server)];
    await Promise.all([one.sync.load(), two.sync.load()]);
    one.type("a", "one");
    await server.rest();
    two.type("a", "two");
    await server.rest();
    expect(sources(server.doc)).toBe("two|one|2");
    expect(two.told.conflicts).toBe(1);
  });
  test("is saved when the server comes back", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.down = true;
    one.type("a", "kept");
    for (const timer of server.timers.splice(0)) timer();
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect(one.told.saved.at(-1)).toBe("unsaved");
    server.down = false;
    await server.rest();
    expect(sources(server.doc)).toBe("kept|2");
  });
});

describe("a save that is refused", () => {
  const refused = async (status: number) => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.refuses = status;
    one.type("a", "too long");
    await server.rest();
    return { server, one };
  };
  test("for good is said once, and made again only after a change or when asked for", async () => {
    const { server, one } = await refused(413);
    expect([server.puts, one.told.final, server.timers.length]).toEqual([1, 1, 0]);
    await one.sync.save();
    expect(server.puts).toBe(2);
    server.refuses = 0;
    one.type("a", "short");
    await server.rest();
    expect([sources(server.doc), one.told.saved.at(-1)]).toEqual(["short|2", "saved"]);
  });
  test("and taken back is saved", async () => {
    const { one } = await refused(413);
    one.type("a", "1");
    expect(one.told.saved.at(-1)).toBe("saved");
  });
  test.each([429, 503])("with %i for now is made again", async (status) => {
    const { server, one } = await refused(status);
    expect([server.puts > 2, one.told.final]).toEqual([true, 0]);
    server.refuses = 0;
    await server.rest();
    expect(sources(server.doc)).toBe("too long|2");
  });
});

describe("a save whose answer is lost", () => {
  test("does not double a cell that is typed into further", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.loses = true;
    one.type("a", "x = 1");
    await one.sync.save();
    server.loses = false;
    one.type("a", "x = 12");
    await server.rest();
    expect([sources(server.doc), sources(one.sync.mine), one.told.conflicts]).toEqual(["x = 12|2", "x = 12|2", 0]);
  });
  test("does not double it for a page that goes on from what was kept, either", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.loses = true;
    one.type("a", "x = 1");
    const save = one.sync.save();
    one.type("a", "x = 12");
    const kept = JSON.parse(JSON.stringify(one.sync.kept)) as Kept; // the tab ends before an answer comes
    await save;
    const { doc, conflicts } = mergeDocuments(baseFor(kept, server.doc), kept.mine, server.doc);
    expect([sources(doc), conflicts]).toEqual(["x = 12|2", 0]);
  });
  test("does not undo what is typed back", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.loses = true;
    one.type("a", "x = 1");
    await one.sync.save();
    server.loses = false;
    one.type("a", "1");
    expect(one.told.saved.at(-1)).toBe("unsaved");
    await server.rest();
    expect([sources(server.doc), sources(one.sync.mine), one.told.saved.at(-1)]).toEqual(["1|2", "1|2", "saved"]);
  });
  test("is asked about once more, and is made again where it did not arrive", async () => {
    const server = new Fake();
    const one = tab(server);
    await one.sync.load();
    server.down = true;
    one.type("a", "x = 1");
    await one.sync.save();
    server.down = false;
    await server.rest();
    expect(sources(server.doc)).toBe("x = 1|2");
  });
});

test("a document that was made for a longer log is saved for the one that there is", async () => {
  const server = new Fake();
  const one = tab(server);
  await one.sync.load();
  server.logEnd = 40;
  one.sync.edit({ ...one.sync.mine, through: 90, title: "new" });
  await one.sync.save();
  expect([server.doc.through, server.doc.title, one.told.saved.at(-1)]).toEqual([40, "new", "saved"]);
});

test("a tab that is left while it saves saves all", async () => {
  const server = new Fake();
  const one = tab(server);
  await one.sync.load();
  one.type("a", "x = 1");
  const save = one.sync.save();
  one.type("a", "x = 12");
  one.sync.end();
  await save;
  expect(sources(server.doc)).toBe("x = 12|2");
});

class FakeSocket {
  readyState = 0;
  sent: string[] = [];
  onmessage: (m: { data: string | Blob }) => void = () => {};
  onclose: (c: { code: number; reason: string }) => void = () => {};
  send(text: string): void { this.sent.push(text); }
  close(): void { this.readyState = 3; }
  hello(last: number, log = "log"): void {
    this.readyState = 1;
    this.onmessage({ data: JSON.stringify({ type: "hello", protocol: 1, session: { log_id: log, last_seq: last } }) });
  }
  drop(code = 1006, reason = ""): void {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

// give gives a stream event as the server sends it: a large one in parts.
function give(socket: FakeSocket | undefined, seq: number, text = ""): void {
  const message = JSON.stringify({ seq, time: "", type: "stream", name: "stdout", text });
  if (message.length <= large) {
    socket?.onmessage({ data: message });
    return;
  }
  socket?.onmessage({ data: JSON.stringify({ type: "parts", bytes: message.length }) });
  for (let at = 0; at < message.length; at += large) socket?.onmessage({ data: new Blob([message.slice(at, at + large)]) });
}

function connection(answers: { status: number; logID?: string; firstSeq?: number }[] = []) {
  const sockets: FakeSocket[] = [];
  const opened: [number, string | undefined][] = [];
  const views: boolean[] = [];
  const timers: (() => void)[] = [];
  const told: string[] = [];
  const parsing: (() => Promise<void>)[] = []; // large messages: each is parsed when a test says so
  let seq = 0;
  const host: Host = {
    open: (after, logID, view) => {
      opened.push([after, logID]);
      views.push(view);
      const socket = new FakeSocket();
      sockets.push(socket);
      return socket as unknown as WebSocket;
    },
    parse: (message) => new Promise((resolve) => parsing.push(async () => resolve(JSON.parse(await message.text())))),
    probe: async () => answers.shift() ?? { status: 200 },
    later: (work) => {
      timers.push(work);
      return () => {};
    },
  };
  const on: Listener = {
    hello: () => told.push("hello"), event: (e: Event) => (seq = e.seq), usage: () => told.push("usage"), link: (l) => told.push(l),
    changed: () => { seq = 0; told.push("changed"); }, gone: () => told.push("gone"), refused: (s) => told.push(`refused ${s}`),
  };
  const socket = new SessionSocket(host, () => seq, on);
  socket.start();
  const again = async () => {
    for (const timer of timers.splice(0)) timer();
    for (let i = 0; i < 10; i++) await Promise.resolve();
  };
  return { socket, sockets, opened, views, told, again, parsing, seq: () => seq };
}

describe("the socket", () => {
  test("goes on after the last event", async () => {
    const c = connection();
    c.sockets[0]?.hello(9);
    c.sockets[0]?.onmessage({ data: JSON.stringify({ seq: 7, time: "", type: "session_state", state: "idle" }) });
    c.sockets[0]?.drop();
    await c.again();
    expect(c.opened).toEqual([[0, undefined], [7, "log"]]);
    expect(c.told).toEqual(["connecting", "hello", "up", "down", "connecting"]);
  });
  test("asks for the view until it is there, and for the log from then on", async () => {
    const c = connection();
    const come = (seq: number) => c.sockets.at(-1)?.onmessage({ data: JSON.stringify({ seq, time: "", type: "session_state", state: "idle" }) });
    c.sockets[0]?.hello(9);
    come(7);
    c.sockets[0]?.drop();
    await c.again();
    c.sockets[1]?.hello(12);
    come(12);
    c.sockets[1]?.drop();
    await c.again();
    expect(c.views).toEqual([true, true, false]);
  });
  test("begins again when the log does not have what comes next", async () => {
    const c = connection([{ status: 200, logID: "log", firstSeq: 20 }]);
    c.sockets[0]?.hello(7);
    c.sockets[0]?.onmessage({ data: JSON.stringify({ seq: 7, time: "", type: "session_state", state: "idle" }) });
    c.sockets[0]?.drop();
    await c.again();
    expect(c.told).toContain("changed");
    expect(c.opened[1]).toEqual([0, undefined]);
    expect(c.views[1]).toBe(true);
  });
  test("keeps the order of messages when a large one is parsed elsewhere", async () => {
    const c = connection();
    c.sockets[0]?.hello(9);
    const event = (n: number, text = "") => give(c.sockets[0], n, text);
    const settled = async () => { for (let i = 0; i < 20; i++) await Promise.resolve(); };
    event(1);
    expect(c.seq()).toBe(1); // a small message does not wait
    event(2, "x".repeat(300_000));
    event(3);
    await settled();
    expect([c.seq(), c.parsing.length]).toEqual([1, 1]);
    await c.parsing.shift()?.();
    await settled();
    expect(c.seq()).toBe(3);
    event(4);
    expect(c.seq()).toBe(4);
  });
  test("asks again for what waited behind a large message when the connection is lost", async () => {
    const c = connection();
    c.sockets[0]?.hello(9);
    const event = (n: number, text = "") => give(c.sockets.at(-1), n, text);
    event(1);
    event(2, "x".repeat(300_000));
    event(3);
    c.sockets[0]?.drop();
    await c.again();
    expect(c.opened[1]).toEqual([1, "log"]);
    c.sockets[1]?.hello(9);
    await c.parsing.shift()?.(); // of the first connection
    for (let i = 0; i < 20; i++) await Promise.resolve();
    expect(c.seq()).toBe(1);
    event(2);
    expect(c.seq()).toBe(2);
  });
  test("is one, however often the browser says that it is online again", async () => {
    const c = connection();
    c.sockets[0]?.hello(0);
    c.sockets[0]?.drop();
    c.socket.hurry();
    c.socket.hurry();
    await c.again(); // the timer, too
    c.socket.hurry();
    expect(c.sockets.length).toBe(2);
    c.sockets[1]?.hello(1);
    const ping = c.socket.ask({ type: "ping" });
    c.sockets[0]?.drop(); // what the first one says does not count any more
    give(c.sockets[0], 1);
    expect(c.seq()).toBe(0);
    c.sockets[1]?.onmessage({ data: '{"type":"reply","id":"f1","ok":true,"result":{}}' });
    await expect(ping).resolves.toEqual({});
  });
  test("asks again for events that did not come, once", async () => {
    const c = connection();
    c.sockets[0]?.hello(3);
    give(c.sockets[0], 3); // a view may leave out what comes before its end
    give(c.sockets[0], 5);
    expect([c.seq(), c.sockets[0]?.readyState, c.told.at(-1)]).toEqual([3, 3, "down"]);
    await c.again();
    expect(c.opened[1]).toEqual([3, "log"]);
    c.sockets[1]?.hello(5);
    give(c.sockets[1], 5); // the server does not have it either
    expect([c.seq(), c.told.at(-1)]).toEqual([5, "up"]);
  });
  test("sends what may come twice again, and refuses what may not", async () => {
    const c = connection();
    c.sockets[0]?.hello(0);
    const run = c.socket.ask({ type: "execute", code: "1" }, { id: "r", again: true });
    const ping = c.socket.ask({ type: "ping" });
    c.sockets[0]?.drop();
    await expect(ping).rejects.toThrow("connection was lost");
    await c.again();
    c.sockets[1]?.hello(0);
    expect(c.sockets[1]?.sent).toEqual(['{"id":"r","type":"execute","code":"1"}']);
    c.sockets[1]?.onmessage({ data: '{"type":"reply","id":"r","ok":true,"result":{"execution_id":"r"}}' });
    await expect(run).resolves.toEqual({ execution_id: "r" });
  });
  test("does not send what is too large for the server, nor again what it found too large", async () => {
    const c = connection();
    c.sockets[0]?.hello(0);
    await expect(c.socket.ask({ type: "execute", code: "ä".repeat(9 << 20) }, { again: true })).rejects.toThrow("16 MiB");
    expect(c.sockets[0]?.sent).toEqual([]);
    const run = c.socket.ask({ type: "execute", code: "1" }, { id: "r", again: true });
    c.sockets[0]?.drop(1009);
    await expect(run).rejects.toThrow("16 MiB");
    await c.again();
    c.sockets[1]?.hello(0);
    expect(c.sockets[1]?.sent).toEqual([]);
  });
  test("tells of refusals, deletions and other logs", async () => {
    const c = connection([{ status: 200, logID: "new" }, { status: 404 }]);
    c.sockets[0]?.hello(3);
    c.sockets[0]?.drop();
    await c.again();
    expect(c.told).toContain("changed");
    expect(c.opened[1]).toEqual([0, undefined]);
    c.sockets[1]?.drop();
    await c.again();
    expect(c.told.at(-1)).toBe("gone");

    const deleted = connection();
    deleted.sockets[0]?.hello(0);
    deleted.sockets[0]?.drop(1000, "session_deleted");
    expect(deleted.told.at(-1)).toBe("gone");
    const out = connection([{ status: 401 }]);
    out.sockets[0]?.drop();
    await out.again();
    expect(out.told.at(-1)).toBe("refused 401");
  });
});
