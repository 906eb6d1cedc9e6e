import { TalariaError } from "./errors.js";
import { answer, declaration, RunningCall, type Tool } from "./tools.js";
import { Backoff, escape, newId, type Transport } from "./transport.js";

// A connection that does not open, or that does not answer pings, is given up. Node may queue its request behind a stream
// that does not end, without saying so.
const HANDSHAKE = 5_000, PING = 10_000, SILENCE = 25_000;
/** Closes after which a further connection may succeed: going away, an error, a restart, try again later. */
const PASSING_CLOSES = [1001, 1005, 1006, 1011, 1012, 1013];

/** A question that a session asks a person before it continues. */
export interface Approval {
  approval_id: string;
  kind: "tool" | "cell" | "network" | "packages";
  /** What is requested, in one line. */
  summary: string;
  detail?: string;
  /** Without an answer by then, it is denied. */
  expires_at: string;
  execution_id?: string;
}

/** What a callback for approvals returns; undefined leaves the answer to someone else. */
export type Decision = "once" | "session" | "deny" | undefined;
export type Decide = (approval: Approval) => Decision | Promise<Decision>;

/** The connection was lost before the reply came. */
class Disconnected extends Error {}

interface Waiting { resolve(result: any): void; reject(error: Error): void }

/**
 * @internal A WebSocket of a session that carries out calls and asks for approvals, and connects again when it is lost.
 * It connects with the first tool or callback.
 */
export class Attached {
  #tools = new Map<string, Tool>();
  #calls = new Map<string, RunningCall>();
  #waiting = new Map<string, Waiting>();
  #asked = new Set<string>();
  #decide?: Decide;
  #socket?: WebSocket;
  #serving = false;
  #registered = false; // on this connection
  #ended?: Error;
  #closing = new AbortController();
  #watchers: (() => void)[] = []; // of a change of the two before
  #change: Promise<unknown> = Promise.resolve(); // one change of the tools at a time

  constructor(private readonly http: Transport, private readonly base: string, private readonly clientId = newId()) {}

  /** Provides another tool, and waits until the server has accepted it. */
  add(tool: Tool): Promise<void> {
    return this.#inTurn(async () => {
      const before = this.#tools.get(tool.name);
      this.#tools.set(tool.name, tool);
      try {
        const reason = (await this.#register()).get(tool.name);
        if (reason) throw new TalariaError("tool_rejected", `the server rejected the tool ${tool.name}: ${reason}`);
      } catch (e) {
        if (before) this.#tools.set(tool.name, before);
        else this.#tools.delete(tool.name);
        throw e;
      }
    });
  }

  /** Withdraws a tool. */
  remove(name: string): Promise<void> {
    return this.#inTurn(async () => { if (this.#tools.delete(name)) await this.#register(); });
  }

  async onApproval(decide: Decide): Promise<void> {
    this.#decide = decide;
    await this.#connected();
    await this.#askPending();
  }

  /** Resolves after `close` or the end of the session. Rejects with the reason if the connection is lost for good. */
  async wait(): Promise<void> {
    if (!this.#serving) throw new Error("there is nothing to serve: first add a tool, or a callback for approvals");
    while (!this.#ended) await this.#changed();
    const { code } = this.#ended as TalariaError;
    if (code !== "closed" && code !== "session_not_found") throw this.#ended;
  }

  /** Withdraws the tools, and cancels the calls that run. */
  async close(): Promise<void> {
    const withdraw = this.#registered && this.#tools.size;
    this.#tools.clear();
    if (withdraw) await this.#ask("tools", { tools: [], client_id: this.clientId }).catch(() => {});
    this.#end(new TalariaError("closed", "the tools were withdrawn"));
    this.#closing.abort();
    this.#socket?.close(1000);
  }

  #inTurn(change: () => Promise<void>): Promise<void> {
    const done = this.#change.then(change);
    this.#change = done.catch(() => {});
    return done;
  }

  #changed(): Promise<void> { return new Promise((resolve) => this.#watchers.push(resolve)); }
  #notify(): void { for (const resolve of this.#watchers.splice(0)) resolve(); }

  /** Tells the server which tools there are. Resolves to the reasons for those that it rejected. */
  async #register(): Promise<Map<string, string>> {
    for (;;) {
      await this.#connected();
      try {
        const { rejected } = await this.#ask("tools", this.#declarations());
        return new Map(rejected.map((r: { name: string; reason: string }) => [r.name, r.reason]));
      } catch (e) {
        if (!(e instanceof Disconnected)) throw e;
      }
    }
  }

  #declarations() { return { tools: [...this.#tools.values()].map(declaration), client_id: this.clientId }; }

  /** Waits for a connection that has its tools registered. */
  async #connected(): Promise<void> {
    if (!this.#serving) {
      this.#serving = true;
      void this.#serve();
    }
    while (!this.#registered || this.#socket?.readyState !== 1) { // one that was lost says so only later
      if (this.#ended) throw this.#ended;
      await this.#changed();
    }
  }

  async #serve(): Promise<void> {
    const backoff = new Backoff(this.http.outage);
    try {
      for (;;) {
        const end = await this.#connect(backoff);
        this.#lost();
        if (this.#closing.signal.aborted) return;
        if (!PASSING_CLOSES.includes(end.code)) throw ending(end);
        // A browser does not report why a WebSocket was refused; this request does, and waits for a server that restarts.
        await this.http.json("GET", this.base, undefined, { signal: this.#closing.signal });
        if (!await backoff.wait(this.#closing.signal)) throw this.http.unreachable(ending(end));
      }
    } catch (e: any) {
      this.#end(e);
    }
  }

  /** Serves one connection, and resolves to how it ended. */
  #connect(backoff: Backoff): Promise<CloseEvent | { code: number; reason: string }> {
    return new Promise((resolve) => {
      const socket = this.http.socket(this.base + "/ws");
      let heard = Date.now();
      const lost = (end: CloseEvent | { code: number; reason: string }) => {
        clearInterval(ping);
        clearTimeout(handshake);
        resolve(end);
      };
      const giveUp = (reason: string) => {
        lost({ code: 1006, reason });
        socket.onmessage = null;
        socket.close();
      };
      const handshake = setTimeout(() => giveUp("the connection does not open"), HANDSHAKE);
      const ping = setInterval(() => {
        if (Date.now() - heard > SILENCE) giveUp("the connection is silent");
        else if (this.#socket === socket) this.#ask("ping", {}).catch(() => {});
      }, PING);
      socket.onclose = lost;
      socket.onopen = () => clearTimeout(handshake);
      // Node 20 sends no close event for a connection that it could not open.
      socket.onerror = () => { if (this.#socket !== socket) giveUp("the connection could not be opened"); };
      socket.onmessage = ({ data }) => {
        heard = Date.now();
        if (data.startsWith('{"seq":') && !data.includes('"approval_request"')) return; // run() reads the events of cells
        backoff.reset();
        this.#take(JSON.parse(data), socket);
      };
    });
  }

  #take(frame: any, socket: WebSocket): void {
    switch (frame.type) {
      case "hello":
        if (this.#ended) return socket.close(1000);
        this.#socket = socket;
        void this.#greeted();
        break;
      case "reply": {
        const waiting = this.#waiting.get(frame.id);
        this.#waiting.delete(frame.id);
        if (frame.ok) waiting?.resolve(frame.result);
        else waiting?.reject(new TalariaError(frame.error.code, frame.error.detail, frame.error.status));
        break;
      }
      case "tool_request":
        void this.#carryOut(frame);
        break;
      case "tool_cancel":
        this.#calls.get(frame.call_id)?.cancel(frame.reason);
        break;
      case "approval_request":
        void this.#askCallback(frame);
    }
  }

  async #greeted(): Promise<void> {
    try {
      if (this.#tools.size) await this.#ask("tools", this.#declarations());
    } catch (e: any) {
      if (!(e instanceof Disconnected)) this.#end(e); // such as for a token that may not run cells
      return;
    }
    this.#registered = true;
    this.#notify();
    if (this.#decide) this.#askPending().catch(() => {});
  }

  /** Sends a frame, and resolves to the result of its reply. */
  #ask(type: string, fields: object): Promise<any> {
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== 1) return reject(new Disconnected());
      const id = newId();
      this.#waiting.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ type, id, ...fields }));
    });
  }

  /** Fails what waits for replies, and cancels the calls that are not handed over again. */
  #lost(): void {
    this.#socket = undefined;
    this.#registered = false;
    for (const waiting of this.#waiting.values()) waiting.reject(new Disconnected("the connection was lost"));
    this.#waiting.clear();
    for (const call of this.#calls.values()) if (!this.#tools.get(call.tool)?.idempotent) call.cancel("disconnected");
  }

  #end(why: Error): void {
    this.#ended ??= why;
    for (const call of this.#calls.values()) call.cancel("disconnected");
    this.#socket?.close(1000);
    this.#notify();
  }

  /** Carries out a call, unless it is still running from before the connection was lost. */
  async #carryOut(request: any): Promise<void> {
    const { call_id: id, tool: name, execution_id: execution, arguments: args, deadline } = request;
    const tool = this.#tools.get(name);
    if (this.#calls.has(id) || this.#ended) return;
    if (!tool) {
      const error = { message: `the client does not provide the tool ${name} any more` };
      await this.#ask("tool_result", { call_id: id, error }).catch(() => {}); // nobody waits for the call any more
      return;
    }
    const call = new RunningCall(id, name, execution, new Date(deadline), (message) => {
      this.#ask("tool_progress", { call_id: id, message }).catch(() => {}); // the call itself is answered, or cancelled
    });
    this.#calls.set(id, call);
    const result = await answer(tool, call, args);
    while (!call.signal.aborted) {
      try {
        await this.#connected();
        await this.#ask("tool_result", result);
        break;
      } catch (e) {
        if (!(e instanceof Disconnected)) break; // nobody waits for the call any more
      }
    }
    this.#calls.delete(id);
  }

  /** Lets the callback decide what was asked before this connection. */
  async #askPending(): Promise<void> {
    const { items } = await this.http.json("GET", this.base + "/approvals", undefined, { query: { state: "pending" } });
    for (const approval of items) void this.#askCallback(approval);
  }

  async #askCallback(approval: Approval): Promise<void> {
    const id = approval.approval_id;
    if (!this.#decide || this.#asked.has(id)) return;
    this.#asked.add(id);
    let body: { decision: Decision; reason?: string };
    try {
      body = { decision: await this.#decide(approval) };
    } catch (e: any) { // the question is about safety
      console.error("talaria: the callback for approvals failed:", e);
      body = { decision: "deny", reason: "the client's callback failed" };
    }
    if (!body.decision) return;
    await this.http.json("POST", `${this.base}/approvals/${escape(id)}`, body, { repeatable: true }).catch((e) => {
      // Otherwise somebody else answered, or the cell was interrupted.
      if (![404, 409].includes(e.status)) console.error("talaria: a decision on an approval was not accepted:", e);
    });
  }
}

function ending(end: { code: number; reason: string }): TalariaError {
  const code = end.reason === "session_deleted" ? "session_not_found" : end.reason || "closed_by_server";
  return new TalariaError(code, `the server closed the connection: ${end.code} ${end.reason}`.trimEnd());
}
