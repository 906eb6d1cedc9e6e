// src/errors.ts
var HINTS = {
  unreachable: "check the URL, and that `talaria serve` is running there; a page of another origin must be in `origins`",
  unauthorized: "pass a valid token: `talaria token show` prints the first owner's",
  session_not_found: "the session was deleted, or belongs to another owner; session(id) creates it again",
  session_conflict: "ifExists: 'keep' takes the session as it is, and 'apply' changes what can change",
  execution_conflict: "this id was used with other code; use a new id for each cell",
  events_expired: "read the events again from the session's first_seq - 1",
  log_changed: "the log was replaced; read the events again from after=0",
  checkpoint_gone: "checkpoints() lists the existing ones, with their levels; a name keeps one",
  queue_full: "wait until some of the session's cells have finished",
  disk_limit: "delete files, or raise limits.disk_bytes"
};
var TalariaError = class extends Error {
  /** `code` is a stable word to branch on, `unreachable` when no server answers; `status` is 0 without an answer. */
  constructor(code, message, status = 0, options) {
    super(message, options);
    this.code = code;
    this.status = status;
    this.name = "TalariaError";
    this.hint = HINTS[code] ?? "";
  }
  hint;
};

// src/tools.ts
var MAX_RESULT = 16 << 20;
var ENVELOPE = 4 << 10;
var ToolError = class extends Error {
  constructor(message, code = "", options) {
    super(message, options);
    this.code = code;
    this.name = "ToolError";
  }
};
var RunningCall = class {
  constructor(id, tool, executionId, deadline, onProgress) {
    this.id = id;
    this.tool = tool;
    this.executionId = executionId;
    this.deadline = deadline;
    this.onProgress = onProgress;
  }
  #over = new AbortController();
  signal = this.#over.signal;
  progress(message) {
    if (!this.signal.aborted) this.onProgress?.(message);
  }
  /** Tells the function that the call was cancelled: `interrupted`, `timeout`, `deleted` or `disconnected`. */
  cancel(reason) {
    this.#over.abort(new TalariaError("call_cancelled", `the call was cancelled: ${reason}`));
  }
};
function declaration(tool) {
  return {
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters,
    timeout_s: tool.timeoutS,
    idempotent: tool.idempotent,
    read_only: tool.readOnly,
    requires_approval: tool.requiresApproval
  };
}
async function answer(tool, call, args) {
  try {
    const text = JSON.stringify(await tool.run(args, call) ?? null);
    if (text === void 0) throw new TypeError("the result is not JSON");
    const size = new TextEncoder().encode(text).length;
    if (size > MAX_RESULT - ENVELOPE) {
      throw new ToolError(`the result has ${size} bytes of JSON, but only ${MAX_RESULT - ENVELOPE} are allowed; write it to a file of the session and return the path`, "result_too_large");
    }
    return { call_id: call.id, result: JSON.parse(text) };
  } catch (e) {
    if (e instanceof ToolError) return { call_id: call.id, error: { code: e.code || void 0, message: e.message } };
    return { call_id: call.id, error: { message: e instanceof Error ? `${e.name}: ${e.message}` : String(e) } };
  }
}
var PendingCalls = class {
  constructor(http, base, body, tools) {
    this.http = http;
    this.base = base;
    this.body = body;
    this.#tools = new Map(tools.map((t) => [t.name, t]));
    if (tools.length) void this.#look();
  }
  #calls = /* @__PURE__ */ new Map();
  // all that were seen
  #over = new AbortController();
  #tools;
  /** Notes what an event of the execution says about its calls. */
  take(event) {
    if (event.type === "tool_result") this.#calls.get(event.call_id)?.cancel("interrupted");
  }
  /** Ends the requests, and cancels what runs. */
  end() {
    this.#over.abort();
    for (const call of this.#calls.values()) call.cancel("interrupted");
  }
  /** Repeats the request until its answer has calls, or the execution is over. */
  async #look() {
    try {
      while (this.#handle(await this.#post("", this.body))) ;
    } catch {
    }
  }
  #post(path, body) {
    return this.http.json("POST", this.base + path, body, { repeatable: true, signal: this.#over.signal });
  }
  /** Carries out the calls that are new. Returns whether nobody else looks for further ones. */
  #handle(execution) {
    const pending = execution.pending_tool_calls ?? [];
    for (const p of pending) {
      if (this.#calls.has(p.call_id)) continue;
      const call = new RunningCall(p.call_id, p.tool, execution.id);
      this.#calls.set(call.id, call);
      void this.#carryOut(call, p.arguments);
    }
    return !pending.length && ["queued", "running"].includes(execution.status);
  }
  async #carryOut(call, args) {
    const result = await answer(this.#tools.get(call.tool), call, args);
    try {
      const path = `/${encodeURIComponent(call.executionId)}/tool_results`;
      if (this.#handle(await this.#post(path, { results: [result] }))) await this.#look();
    } catch (e) {
      if (e?.code === "no_call_pending") await this.#look();
    }
  }
};

// src/transport.ts
var SILENCE = 6e4;
var SUBPROTOCOL = "talaria.v1";
var FIRST_PAUSE = 20;
var LONGEST_PAUSE = 3e3;
var PASSING_CODES = ["not_ready", "shutting_down", "too_many_requests"];
function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, ms);
    signal?.addEventListener("abort", end, { once: true });
  });
}
var Backoff = class {
  constructor(outage) {
    this.outage = outage;
  }
  #since = 0;
  #pause = 0;
  reset() {
    this.#since = this.#pause = 0;
  }
  /** Resolves to whether to try again. */
  async wait(signal) {
    this.#since ||= Date.now();
    if (Date.now() - this.#since >= this.outage) return false;
    this.#pause = Math.min(Math.max(2 * this.#pause, FIRST_PAUSE), LONGEST_PAUSE);
    await pause(this.#pause, signal);
    return true;
  }
};
var Transport = class {
  url;
  outage;
  #token;
  #WebSocket;
  #reached = false;
  // a server that never answered is reported at once
  constructor(options) {
    if (options?.url == null) {
      throw new TypeError("url is missing: pass new Talaria({ url, token }) the output of `talaria url` and `talaria token show`");
    }
    this.url = options.url.replace(/\/+$/, "");
    this.outage = options.outage ?? 6e4;
    this.#token = options.token;
    this.#WebSocket = options.WebSocket ?? globalThis.WebSocket;
  }
  /** Begins to open a WebSocket. */
  socket(path) {
    if (!this.#WebSocket) {
      throw new TalariaError("no_websocket", "this Node has no WebSocket: use Node 22 or newer, start Node 20 with --experimental-websocket, or pass WebSocket, for example from the package ws");
    }
    const url = `${new URL(this.url, globalThis.location?.href).href.replace(/^http/, "ws").replace(/\/$/, "")}${path}`;
    return new this.#WebSocket(`${url}?token=${encodeURIComponent(this.#token)}`, [SUBPROTOCOL]);
  }
  unreachable(cause) {
    const why = cause?.cause?.message || cause?.cause?.code || cause?.message || String(cause);
    return new TalariaError("unreachable", `cannot reach ${this.url}: ${why}`, 0, { cause });
  }
  async json(method, path, body, extra = {}) {
    const call = { method, path, ...extra, headers: { Accept: "application/json" } };
    if (body !== void 0) {
      call.body = JSON.stringify(body);
      call.headers["Content-Type"] = "application/json";
    }
    const text = await (await this.send(call)).text();
    return text ? JSON.parse(text) : void 0;
  }
  async send(call) {
    const repeatable = call.repeatable ?? ["GET", "PUT", "DELETE"].includes(call.method);
    const backoff = new Backoff(this.outage);
    for (; ; ) {
      let response;
      try {
        response = await this.#fetch(call);
      } catch (e) {
        call.signal?.throwIfAborted();
        if (this.#reached && (repeatable || e?.cause?.code === "ECONNREFUSED") && await backoff.wait(call.signal)) continue;
        throw this.unreachable(e);
      }
      this.#reached = true;
      if (response.ok) return response;
      const error = await problem(response);
      const passing = PASSING_CODES.includes(error.code) || !error.code && [502, 503, 504].includes(error.status);
      if (!passing || call.body instanceof ReadableStream || !await backoff.wait(call.signal)) throw error;
    }
  }
  #fetch(call) {
    const query = call.query ? "?" + new URLSearchParams(call.query) : "";
    const init = {
      method: call.method,
      body: call.body,
      signal: call.signal,
      cache: "no-store",
      credentials: "omit",
      headers: { Authorization: `Bearer ${this.#token}`, ...call.headers }
    };
    if (call.body instanceof ReadableStream) init.duplex = "half";
    return fetch(this.url + call.path + query, init);
  }
  /** Downloads a file. If the connection is lost, the stream continues with the rest. */
  async download(path) {
    let { reader, tag, left } = await this.#part(path);
    let done = 0;
    const backoff = new Backoff(this.outage);
    return new ReadableStream({
      pull: async (stream) => {
        for (; ; ) {
          let cause = new Error("the connection was cut");
          try {
            const piece = await reader.read();
            if (piece.value) {
              backoff.reset();
              done += piece.value.length;
              left -= piece.value.length;
              return stream.enqueue(piece.value);
            }
            if (left <= 0) return stream.close();
          } catch (e) {
            cause = e;
          }
          if (!tag || !await backoff.wait()) throw this.unreachable(cause);
          ({ reader, tag, left } = await this.#part(path, done, tag));
        }
      },
      cancel: (reason) => reader.cancel(reason)
    }, { highWaterMark: 0 });
  }
  /** Requests a file from an offset on, if it still has that tag. `left` is the number of bytes, 0 if unknown. */
  async #part(path, from = 0, tag = "") {
    const headers = from ? { Range: `bytes=${from}-`, "If-Range": tag } : {};
    const response = await this.send({ method: "GET", path, headers });
    if (from && response.status !== 206) {
      await response.body?.cancel();
      throw new TalariaError("file_changed", "the file was changed during its download; download it again");
    }
    return {
      reader: response.body.getReader(),
      tag: response.headers.get("ETag") ?? "",
      left: Number(response.headers.get("Content-Length") ?? 0)
    };
  }
  /** Yields events, each once and in order, over one connection after the other. */
  events(request, after, signal, follow = true) {
    const call = () => {
      const asked = request(after);
      return { ...asked, headers: { Accept: "text/event-stream", ...asked.headers } };
    };
    const fresh = (event) => event.seq > after && (after = event.seq, true);
    return this.#resumed(call, parse, fresh, signal, { follow });
  }
  /**
   * Sends JSON and yields the lines of the answer, over one connection after the other. The same request again gives the
   * lines from the first on: those that are not `fresh` are left out.
   */
  lines(path, body, fresh, signal) {
    const headers = { Accept: "application/x-ndjson", "Content-Type": "application/json" };
    const call = { method: "POST", path, body: JSON.stringify(body), headers };
    return this.#resumed(() => call, parseLines, fresh, signal, { silent: true });
  }
  /** Yields what is fresh. A `silent` stream sends nothing while nothing happens: a proxy may cut it any number of times. */
  async *#resumed(request, read, fresh, signal, { follow = true, silent = false } = {}) {
    const backoff = new Backoff(this.outage);
    for (; ; ) {
      let cause = new Error("the server ended the stream");
      let opened = Infinity;
      const connection = new AbortController();
      const abort = () => connection.abort(signal.reason);
      signal?.throwIfAborted();
      signal?.addEventListener("abort", abort, { once: true });
      try {
        const response = await this.send({ ...request(), repeatable: true, signal: connection.signal });
        opened = Date.now();
        for await (const part of read(response, connection)) {
          if (!fresh(part)) continue;
          backoff.reset();
          yield part;
        }
        if (!follow) return;
      } catch (e) {
        signal?.throwIfAborted();
        if (!(e instanceof Broken)) throw e;
        cause = e.cause;
      } finally {
        signal?.removeEventListener("abort", abort);
        connection.abort();
      }
      if (silent && Date.now() - opened > LONGEST_PAUSE) backoff.reset();
      if (!await backoff.wait(signal)) throw this.unreachable(cause);
    }
  }
};
var Broken = class extends Error {
};
async function* linesOf(response, silent) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let parts = [];
  for (; ; ) {
    const silence = silent && setTimeout(silent, SILENCE);
    let piece;
    try {
      piece = await reader.read();
    } catch (e) {
      throw new Broken("the stream was cut", { cause: e });
    } finally {
      clearTimeout(silence);
    }
    if (piece.done) return;
    const lines = decoder.decode(piece.value, { stream: true }).split("\n");
    parts.push(lines[0]);
    for (const next of lines.slice(1)) {
      yield parts.join("");
      parts = [next];
    }
  }
}
async function* parse(response, connection) {
  for await (const line of linesOf(response, () => connection.abort(new Error("the stream is silent")))) {
    if (line.startsWith("data:")) yield JSON.parse(line.slice(5));
  }
}
async function* parseLines(response) {
  for await (const line of linesOf(response)) yield JSON.parse(line);
}
async function problem(response) {
  const document = await response.json().catch(() => void 0);
  if (document?.code) return new TalariaError(document.code, document.detail, response.status);
  return new TalariaError("", `the server answered ${response.status} ${response.statusText}`, response.status);
}
var escape = (segment) => encodeURIComponent(segment);
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
}
async function remove(http, path, gone) {
  await http.send({ method: "DELETE", path }).catch((e) => {
    if (e.code !== gone) throw e;
  });
}
async function pages(http, path, query) {
  const items = [];
  for (let cursor; ; ) {
    const page = await http.json("GET", path, void 0, { query: cursor ? { ...query, cursor } : query });
    items.push(...page.items);
    if (!(cursor = page.next_cursor)) return items;
  }
}

// src/attached.ts
var HANDSHAKE = 5e3;
var PING = 1e4;
var SILENCE2 = 25e3;
var PASSING_CLOSES = [1001, 1005, 1006, 1011, 1012, 1013];
var Disconnected = class extends Error {
};
var Attached = class {
  // one change of the tools at a time
  constructor(http, base, clientId = newId()) {
    this.http = http;
    this.base = base;
    this.clientId = clientId;
  }
  #tools = /* @__PURE__ */ new Map();
  #calls = /* @__PURE__ */ new Map();
  #waiting = /* @__PURE__ */ new Map();
  #asked = /* @__PURE__ */ new Set();
  #decide;
  #socket;
  #serving = false;
  #registered = false;
  // on this connection
  #ended;
  #closing = new AbortController();
  #watchers = [];
  // of a change of the two before
  #change = Promise.resolve();
  /** Provides another tool, and waits until the server has accepted it. */
  add(tool) {
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
  remove(name) {
    return this.#inTurn(async () => {
      if (this.#tools.delete(name)) await this.#register();
    });
  }
  async onApproval(decide) {
    this.#decide = decide;
    await this.#connected();
    await this.#askPending();
  }
  /** Resolves after `close` or the end of the session. Rejects with the reason if the connection is lost for good. */
  async wait() {
    if (!this.#serving) throw new Error("there is nothing to serve: first add a tool, or a callback for approvals");
    while (!this.#ended) await this.#changed();
    const { code } = this.#ended;
    if (code !== "closed" && code !== "session_not_found") throw this.#ended;
  }
  /** Withdraws the tools, and cancels the calls that run. */
  async close() {
    const withdraw = this.#registered && this.#tools.size;
    this.#tools.clear();
    if (withdraw) await this.#ask("tools", { tools: [], client_id: this.clientId }).catch(() => {
    });
    this.#end(new TalariaError("closed", "the tools were withdrawn"));
    this.#closing.abort();
    this.#socket?.close(1e3);
  }
  #inTurn(change) {
    const done = this.#change.then(change);
    this.#change = done.catch(() => {
    });
    return done;
  }
  #changed() {
    return new Promise((resolve) => this.#watchers.push(resolve));
  }
  #notify() {
    for (const resolve of this.#watchers.splice(0)) resolve();
  }
  /** Tells the server which tools there are. Resolves to the reasons for those that it rejected. */
  async #register() {
    for (; ; ) {
      await this.#connected();
      try {
        const { rejected } = await this.#ask("tools", this.#declarations());
        return new Map(rejected.map((r) => [r.name, r.reason]));
      } catch (e) {
        if (!(e instanceof Disconnected)) throw e;
      }
    }
  }
  #declarations() {
    return { tools: [...this.#tools.values()].map(declaration), client_id: this.clientId };
  }
  /** Waits for a connection that has its tools registered. */
  async #connected() {
    if (!this.#serving) {
      this.#serving = true;
      void this.#serve();
    }
    while (!this.#registered || this.#socket?.readyState !== 1) {
      if (this.#ended) throw this.#ended;
      await this.#changed();
    }
  }
  async #serve() {
    const backoff = new Backoff(this.http.outage);
    try {
      for (; ; ) {
        const end = await this.#connect(backoff);
        this.#lost();
        if (this.#closing.signal.aborted) return;
        if (!PASSING_CLOSES.includes(end.code)) throw ending(end);
        await this.http.json("GET", this.base, void 0, { signal: this.#closing.signal });
        if (!await backoff.wait(this.#closing.signal)) throw this.http.unreachable(ending(end));
      }
    } catch (e) {
      this.#end(e);
    }
  }
  /** Serves one connection, and resolves to how it ended. */
  #connect(backoff) {
    return new Promise((resolve) => {
      const socket = this.http.socket(this.base + "/ws");
      let heard = Date.now();
      const lost = (end) => {
        clearInterval(ping);
        clearTimeout(handshake);
        resolve(end);
      };
      const giveUp = (reason) => {
        lost({ code: 1006, reason });
        socket.onmessage = null;
        socket.close();
      };
      const handshake = setTimeout(() => giveUp("the connection does not open"), HANDSHAKE);
      const ping = setInterval(() => {
        if (Date.now() - heard > SILENCE2) giveUp("the connection is silent");
        else if (this.#socket === socket) this.#ask("ping", {}).catch(() => {
        });
      }, PING);
      socket.onclose = lost;
      socket.onopen = () => clearTimeout(handshake);
      socket.onerror = () => {
        if (this.#socket !== socket) giveUp("the connection could not be opened");
      };
      socket.onmessage = ({ data }) => {
        heard = Date.now();
        if (data.startsWith('{"seq":') && !data.includes('"approval_request"')) return;
        backoff.reset();
        this.#take(JSON.parse(data), socket);
      };
    });
  }
  #take(frame, socket) {
    switch (frame.type) {
      case "hello":
        if (this.#ended) return socket.close(1e3);
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
  async #greeted() {
    try {
      if (this.#tools.size) await this.#ask("tools", this.#declarations());
    } catch (e) {
      if (!(e instanceof Disconnected)) this.#end(e);
      return;
    }
    this.#registered = true;
    this.#notify();
    if (this.#decide) this.#askPending().catch(() => {
    });
  }
  /** Sends a frame, and resolves to the result of its reply. */
  #ask(type, fields) {
    return new Promise((resolve, reject) => {
      if (this.#socket?.readyState !== 1) return reject(new Disconnected());
      const id = newId();
      this.#waiting.set(id, { resolve, reject });
      this.#socket.send(JSON.stringify({ type, id, ...fields }));
    });
  }
  /** Fails what waits for replies, and cancels the calls that are not handed over again. */
  #lost() {
    this.#socket = void 0;
    this.#registered = false;
    for (const waiting of this.#waiting.values()) waiting.reject(new Disconnected("the connection was lost"));
    this.#waiting.clear();
    for (const call of this.#calls.values()) if (!this.#tools.get(call.tool)?.idempotent) call.cancel("disconnected");
  }
  #end(why) {
    this.#ended ??= why;
    for (const call of this.#calls.values()) call.cancel("disconnected");
    this.#socket?.close(1e3);
    this.#notify();
  }
  /** Carries out a call, unless it is still running from before the connection was lost. */
  async #carryOut(request) {
    const { call_id: id, tool: name, execution_id: execution, arguments: args, deadline } = request;
    const tool = this.#tools.get(name);
    if (this.#calls.has(id) || this.#ended) return;
    if (!tool) {
      const error = { message: `the client does not provide the tool ${name} any more` };
      await this.#ask("tool_result", { call_id: id, error }).catch(() => {
      });
      return;
    }
    const call = new RunningCall(id, name, execution, new Date(deadline), (message) => {
      this.#ask("tool_progress", { call_id: id, message }).catch(() => {
      });
    });
    this.#calls.set(id, call);
    const result = await answer(tool, call, args);
    while (!call.signal.aborted) {
      try {
        await this.#connected();
        await this.#ask("tool_result", result);
        break;
      } catch (e) {
        if (!(e instanceof Disconnected)) break;
      }
    }
    this.#calls.delete(id);
  }
  /** Lets the callback decide what was asked before this connection. */
  async #askPending() {
    const { items } = await this.http.json("GET", this.base + "/approvals", void 0, { query: { state: "pending" } });
    for (const approval of items) void this.#askCallback(approval);
  }
  async #askCallback(approval) {
    const id = approval.approval_id;
    if (!this.#decide || this.#asked.has(id)) return;
    this.#asked.add(id);
    let body;
    try {
      body = { decision: await this.#decide(approval) };
    } catch (e) {
      console.error("talaria: the callback for approvals failed:", e);
      body = { decision: "deny", reason: "the client's callback failed" };
    }
    if (!body.decision) return;
    await this.http.json("POST", `${this.base}/approvals/${escape(id)}`, body, { repeatable: true }).catch((e) => {
      if (![404, 409].includes(e.status)) console.error("talaria: a decision on an approval was not accepted:", e);
    });
  }
};
function ending(end) {
  const code = end.reason === "session_deleted" ? "session_not_found" : end.reason || "closed_by_server";
  return new TalariaError(code, `the server closed the connection: ${end.code} ${end.reason}`.trimEnd());
}

// src/execution.ts
var Result = class {
  constructor(data, metadata, displayId, isMain = false) {
    this.data = data;
    this.metadata = metadata;
    this.displayId = displayId;
    this.isMain = isMain;
  }
  get text() {
    return String(this.data["text/plain"] ?? "");
  }
  /** Not sanitized. */
  get html() {
    return this.data["text/html"];
  }
  /** The bytes of the picture, if the value is one. */
  get png() {
    const encoded = this.data["image/png"];
    return encoded === void 0 ? void 0 : Uint8Array.from(atob(encoded), (c) => c.charCodeAt(0));
  }
};
var Execution = class {
  constructor(id) {
    this.id = id;
  }
  status = "queued";
  reason;
  /** What became of the variables: `kept` or `lost`. */
  state = "kept";
  /** What a language model should read. */
  text = "";
  stdout = "";
  stderr = "";
  results = [];
  error;
  artifacts = [];
  /** The execution as the server sent it. */
  raw;
  /** Whether the cell ran to its end without an exception. */
  get ok() {
    return this.status === "ok";
  }
  /** The bytes of all pictures, in order. */
  get pngs() {
    return this.results.map((r) => r.png).filter((p) => p !== void 0);
  }
  /** The bytes of the last picture, if there is one. */
  get png() {
    return this.pngs.at(-1);
  }
};
function errorOf(raw) {
  return raw && { name: raw.ename, value: raw.evalue, traceback: raw.traceback.join("\n"), hint: raw.hint };
}
var Collector = class {
  execution;
  done = false;
  #clear = false;
  #out = { stdout: [], stderr: [] };
  constructor(id) {
    this.execution = new Execution(id);
  }
  /** Adds an event, and returns the result that it displayed or changed. */
  take(event) {
    const e = this.execution;
    switch (event.type) {
      case "stream":
        this.#out[event.name]?.push(event.text);
        return;
      case "clear_output":
        this.#clear = event.wait;
        if (!event.wait) e.results = [];
        return;
      case "display_data":
      case "execute_result": {
        if (this.#clear) e.results = [];
        this.#clear = false;
        const main = event.type === "execute_result";
        const shown = new Result(event.data, event.metadata, main ? void 0 : event.display_id, main);
        e.results.push(shown);
        return shown;
      }
      case "update_display_data": {
        const changed = e.results.filter((r) => r.displayId !== void 0 && r.displayId === event.display_id);
        for (const r of changed) Object.assign(r, { data: event.data, metadata: event.metadata });
        return changed.at(-1);
      }
      case "error":
        e.error = errorOf(event);
        return;
      case "execution_finished":
        this.#finish(event.execution);
    }
    return;
  }
  #finish(raw) {
    const e = this.execution;
    Object.assign(e, { raw, status: raw.status, reason: raw.reason, state: raw.state, text: raw.text });
    e.artifacts = raw.artifacts ?? [];
    e.error ??= errorOf(raw.error);
    e.stdout = this.#out.stdout.join("");
    e.stderr = this.#out.stderr.join("");
    this.done = true;
  }
};

// src/files.ts
var Files = class {
  constructor(http, base) {
    this.base = base;
    this.#http = http;
  }
  #http;
  #path(name) {
    return this.base + "/" + name.split("/").map(escape).join("/");
  }
  /** Lists one folder by name. */
  list(folder = "") {
    return pages(this.#http, this.base, folder ? { path: folder } : {});
  }
  /** Downloads a file. A lost download is resumed; if the file changes meanwhile, it fails with `file_changed`. */
  async read(name) {
    return new Uint8Array(await new Response(await this.stream(name)).arrayBuffer());
  }
  /** Downloads a file piece by piece; see `read`. */
  stream(name) {
    return this.#http.download(this.#path(name));
  }
  /** Uploads a file in one step, with its folders. A stream works in Node and in Chromium over HTTP/2. */
  async write(name, data) {
    const response = await this.#http.send({
      method: "PUT",
      path: this.#path(name),
      body: data,
      repeatable: !(data instanceof ReadableStream),
      headers: { "Content-Type": "application/octet-stream" }
    });
    return response.json();
  }
  /** Deletes a file, a link itself, or a folder with everything in it. It is not an error if it no longer exists. */
  delete(name) {
    return remove(this.#http, this.#path(name), "file_not_found");
  }
};

// src/map.ts
var MapResult = class {
  constructor(id, status, reason, error, items) {
    this.id = id;
    this.status = status;
    this.reason = reason;
    this.error = error;
    this.items = items;
  }
  /** Whether every item ran to its end without an exception. */
  get ok() {
    return this.status === "ok" && this.items.every((item) => item.status === "ok");
  }
  /** The values of all items, undefined for those that failed. */
  get values() {
    return this.items.map((item) => item.value);
  }
};
var MapCollector = class {
  /** Once the map has ended. */
  result;
  #items = /* @__PURE__ */ new Map();
  /** Whether a line is new: a reopened stream begins with the items that have ended. */
  fresh(line) {
    return !this.#items.has(line.index);
  }
  /** Adds a line, and returns the item in it. The last line is the summary. */
  take(line) {
    if (line.type === "summary") {
      const items = [...this.#items.values()].sort((a, b) => a.index - b.index);
      this.result = new MapResult(line.execution_id, line.status, line.reason, errorOf(line.error), items);
      return;
    }
    const { index, status, reason, value, text, artifacts } = line;
    const results = line.outputs.filter((o) => o.data).map((o) => new Result(o.data, o.metadata ?? {}));
    const item = {
      index,
      status,
      reason,
      value,
      valueType: line.value_type,
      text,
      error: errorOf(line.error),
      results,
      artifacts,
      durationMs: line.duration_ms
    };
    this.#items.set(index, item);
    return item;
  }
};

// src/talaria.ts
var ABANDON = 3e3;
var Talaria = class {
  #http;
  constructor(options) {
    this.#http = new Transport(options);
  }
  /**
   * Gets the session with this id, or creates it. `settings` are the fields of `PUT /v1/sessions/{id}`. With a token for
   * one session, pass the id of that session and no settings.
   */
  async session(id = newId(), settings = {}, { clientId, ifExists } = {}) {
    const path = `/v1/sessions/${escape(id)}`;
    const query = ifExists && { if_exists: ifExists };
    const info = await this.#http.json("PUT", path, settings, { query }).catch((e) => {
      if (e.code !== "forbidden" || Object.keys(settings).length) throw e;
      return this.#http.json("GET", path);
    });
    return new Session(this.#http, info, clientId);
  }
  /** Lists sessions, newest first; `query` filters them as `GET /v1/sessions` does. */
  sessions(query = {}) {
    return pages(this.#http, "/v1/sessions", query);
  }
  /** Lists your tokens that have not expired, including session tokens, without the tokens themselves. */
  tokens() {
    return pages(this.#http, "/v1/tokens", {});
  }
  /**
   * Revokes one of your tokens by its id, and ends its logins, sockets and streams. It rejects with `not_found` if the
   * id is not one of yours.
   */
  async revokeToken(id) {
    await this.#http.send({ method: "DELETE", path: `/v1/tokens/${escape(id)}` });
  }
};
var Session = class _Session {
  constructor(http, info, clientId) {
    this.info = info;
    this.#http = http;
    this.id = info.id;
    this.#base = `/v1/sessions/${escape(info.id)}`;
    this.files = new Files(http, this.#base + "/files");
    this.#attached = new Attached(http, this.#base, clientId);
  }
  id;
  files;
  #http;
  #base;
  #attached;
  /**
   * Runs a cell and resolves once it has finished; a cell that raised has `error` set. A lost connection is reopened;
   * the cell runs only once.
   */
  async run(code, options = {}) {
    const { id = newId(), signal, onInput } = options;
    signal?.throwIfAborted();
    const request = {
      id,
      code,
      allow_stdin: !!onInput,
      timeout_s: options.timeout,
      silent: options.silent,
      stop_on_error: options.stopOnError,
      checkpoint: options.checkpoint,
      tools: options.tools?.map(declaration)
    };
    const body = JSON.stringify(request);
    const base = this.#base + "/executions";
    const collector = new Collector(id);
    const failed = new AbortController();
    const ends = signal ? AbortSignal.any([signal, failed.signal]) : failed.signal;
    const events = this.#http.events((after) => after ? { method: "GET", path: `${base}/${escape(id)}`, query: { after: String(after) } } : { method: "POST", path: base, body, headers: { "Content-Type": "application/json" } }, 0, ends);
    const calls = new PendingCalls(this.#http, base, request, options.tools ?? []);
    try {
      for await (const event of events) {
        calls.take(event);
        const shown = collector.take(event);
        options.onEvent?.(event);
        if (event.type === "stream") (event.name === "stdout" ? options.onStdout : options.onStderr)?.(event.text);
        if (shown) options.onDisplay?.(shown);
        if (event.type === "input_request" && onInput) {
          this.#answer(event, onInput).catch((e) => failed.abort(e));
        }
        if (collector.done) break;
      }
    } catch (e) {
      if (ends.aborted) await this.#abandon(id);
      throw e;
    } finally {
      calls.end();
    }
    return collector.execution;
  }
  /**
   * Runs a cell, or a function of the session, for each of the inputs, in copies of the interpreter. It resolves with all
   * items in the order of the inputs once the map has ended. A lost connection is reopened; nothing runs twice.
   */
  async map(code, inputs, options = {}) {
    const { id = newId(), signal } = options;
    const body = {
      id,
      inputs,
      ...typeof code === "string" ? { code } : { function: code.function },
      concurrency: options.concurrency,
      timeout_s: options.timeout,
      on_error: options.onError
    };
    const collector = new MapCollector();
    try {
      for await (const line of this.#http.lines(this.#base + "/map", body, (l) => collector.fresh(l), signal)) {
        const item = collector.take(line);
        if (item) options.onItem?.(item);
        if (collector.result) break;
      }
    } catch (e) {
      if (signal?.aborted) await this.#abandon(id);
      throw e;
    }
    return collector.result;
  }
  /**
   * Makes a checkpoint of the variables and files as they are now, while no cell runs or waits. Checkpoints without a
   * name make room for newer ones. `level` is `live` for variables in memory, exactly as they are; `saved` for variables on disk,
   * which survive the kernel and can be forked; or `files`. By default it is the first of these that is possible.
   */
  checkpoint(name, { level } = {}) {
    return this.#http.json("POST", this.#base + "/checkpoints", { name, level });
  }
  /** Lists the session's checkpoints, newest first. */
  checkpoints() {
    return pages(this.#http, this.#base + "/checkpoints", {});
  }
  /** Resolves with what changed between a checkpoint and another one, or since a checkpoint. */
  diff(checkpoint, to) {
    const [id, other] = [checkpoint, to].map((point) => typeof point === "object" ? point.id : point);
    const query = other === void 0 ? "" : `?to=${escape(other)}`;
    return this.#http.json("GET", `${this.#base}/checkpoints/${escape(id)}/diff${query}`);
  }
  /** Deletes a checkpoint, given as an object or by its id. It is not an error if it no longer exists. */
  deleteCheckpoint(checkpoint) {
    const id = typeof checkpoint === "string" ? checkpoint : checkpoint.id;
    return remove(this.#http, `${this.#base}/checkpoints/${escape(id)}`, "checkpoint_not_found");
  }
  /**
   * Takes the session back to a checkpoint, given as an object or by its id, or to the state right after an execution.
   * `keepUserEdits` leaves alone the files that no cell has changed since. If the checkpoint does not have what is
   * requested, it rejects with `checkpoint_gone` and changes nothing.
   */
  rollback(to, { what, keepUserEdits } = {}) {
    const point = to instanceof Execution ? { execution_id: to.id } : { checkpoint_id: typeof to === "string" ? to : to.id };
    return this.#http.json("POST", this.#base + "/rollback", { ...point, what, keep_user_edits: keepUserEdits });
  }
  /**
   * Creates up to 64 sessions with the variables, files, packages and settings that this one has now; this one
   * continues undisturbed. It rejects with `kernel_busy` while a cell runs or waits. `name` is their display name.
   * `info.not_restored` of a fork names what could not be copied. If only some forks can be created, for example
   * because of a limit, it resolves with those; if none can, it rejects. With a checkpoint, variables and files come
   * from the checkpoint.
   */
  async fork(count = 1, name, { checkpoint } = {}) {
    const point = typeof checkpoint === "string" ? checkpoint : checkpoint?.id;
    const { items } = await this.#http.json("POST", this.#base + "/fork", { count, name, checkpoint_id: point });
    const made = items.flatMap((item) => item.id ? [new _Session(this.#http, item)] : []);
    const [problem2] = items;
    if (made.length === 0) throw new TalariaError(problem2.code, problem2.detail, problem2.status);
    return made;
  }
  /**
   * Creates a token for this session only, for a program that must not have yours, such as a page. By default, `rights`
   * is only `read`, and `expires`, in seconds, is an hour. `id` in the result is for `revokeToken`.
   */
  token({ rights, expires } = {}) {
    return this.#http.json("POST", this.#base + "/tokens", { rights, expires_s: expires });
  }
  /**
   * Saves the variables to disk and ends the interpreter; the next cell, or `wake`, restores them. It resolves with what
   * could not be saved, and rejects with `kernel_busy` while a cell runs or waits.
   */
  async hibernate() {
    const { not_saved, ...info } = await this.#http.json("POST", this.#base + "/hibernate", void 0, { repeatable: true });
    this.info = info;
    return not_saved;
  }
  /** Starts an interpreter with the saved variables, if none is running. It resolves with what could not be restored. */
  async wake() {
    const { not_restored, ...info } = await this.#http.json("POST", this.#base + "/wake");
    this.info = info;
    return not_restored;
  }
  /**
   * Lets the session's cells call a function of this program: `from hermes_tools import NAME`. It resolves once the
   * server has the tool, and rejects with `tool_rejected` if the server rejects it. A lost connection is reopened; only
   * a call of an `idempotent` tool continues meanwhile, and no call is executed or answered twice. Node exits only
   * after `close`.
   */
  tool(tool) {
    return this.#attached.add(tool);
  }
  /** Withdraws a tool that `tool` provided. It is not an error if it is no longer provided. */
  removeTool(name) {
    return this.#attached.remove(name);
  }
  /**
   * Lets a function decide what the session asks approval for: `once`, `session` or `deny`, or undefined to leave the
   * answer to somebody else. If it throws, the answer is `deny`.
   */
  onApproval(decide) {
    return this.#attached.onApproval(decide);
  }
  /** Resolves after `close` or the session's end. Rejects with the reason if the connection for tools is lost for good. */
  serve() {
    return this.#attached.wait();
  }
  /** Withdraws the tools and the callback for approvals. The session itself stays. */
  close() {
    return this.#attached.close();
  }
  /** Interrupts an execution that the caller leaves. While the server is away, it is tried on, but not waited for. */
  async #abandon(id) {
    let timer;
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, ABANDON);
    });
    await Promise.race([this.interrupt(id).catch(() => {
    }), late]);
    clearTimeout(timer);
  }
  async #answer(event, onInput) {
    const value = await onInput(event.prompt, event.password);
    await this.input(value, event.request_id).catch((e) => {
      if (e.code !== "no_input_pending") throw e;
    });
  }
  /**
   * Yields the events of the session's log after a position, then live unless `follow` is false. Each event arrives
   * once and in order, even if the connection is lost. If the log was replaced, it rejects with `log_changed`.
   */
  events(options = {}) {
    const { after = 0, follow = true, logId = this.info.log_id, signal } = options;
    return this.#http.events((position) => ({
      method: "GET",
      path: this.#base + "/events",
      query: { after: String(position), log_id: logId, ...follow ? {} : { follow: "false" } }
    }), after, signal, follow);
  }
  /** Fetches the current state of the session from the server. */
  async refresh() {
    return this.info = await this.#http.json("GET", this.#base);
  }
  /** Interrupts one execution; without an id, interrupts the running one and cancels those that wait. */
  async interrupt(executionId) {
    await this.#http.json(
      "POST",
      this.#base + "/interrupt",
      { execution_id: executionId },
      { repeatable: executionId !== void 0 }
    );
  }
  /** Answers the question that a cell is asking. */
  async input(value, requestId) {
    await this.#http.json(
      "POST",
      this.#base + "/input",
      { value, request_id: requestId },
      { repeatable: requestId !== void 0 }
    );
  }
  /** Starts a fresh interpreter. Variables are lost; files and packages stay by default. */
  async reset(options = {}) {
    const { keepFiles = true, keepPackages = true } = options;
    this.info = await this.#http.json(
      "POST",
      this.#base + "/reset",
      { keep_files: keepFiles, keep_packages: keepPackages }
    );
  }
  /** Deletes the session with its files and log. It is not an error if it no longer exists. */
  async delete() {
    await remove(this.#http, this.#base, "session_not_found");
    await this.close();
  }
  /** Downloads the bytes of one of `Execution.artifacts`, as the cell left them. */
  async artifact(artifact) {
    return new Uint8Array(await new Response(await this.#http.download(artifact.url)).arrayBuffer());
  }
};
export {
  Execution,
  Files,
  MapResult,
  Result,
  Session,
  Talaria,
  TalariaError,
  ToolError
};
