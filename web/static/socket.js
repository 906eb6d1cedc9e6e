// A session's WebSocket that connects again by itself and goes on where it was.

const firstDelay = 250;
const lastDelay = 10000;

export class SessionSocket {
  // on: hello(session), event(event), usage(frame), link(up), gone()
  // position() is the last seq that the page has, or null to begin at the log's start.
  constructor(id, position, on) {
    this.id = id;
    this.position = position;
    this.on = on;
    this.delay = firstDelay;
    this.waiting = new Map(); // frames without a reply, by id
    this.serial = 0;
    this.open();
  }

  open() {
    const url = new URL(`/v1/sessions/${encodeURIComponent(this.id)}/ws`, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    url.searchParams.set("after", this.position() ?? 0);
    if (this.logID) url.searchParams.set("log_id", this.logID);
    url.searchParams.set("usage", "1");
    const socket = new WebSocket(url, "talaria.v1");
    this.socket = socket;
    socket.onmessage = (message) => this.take(JSON.parse(message.data));
    socket.onclose = (close) => this.closed(close);
  }

  take(frame) {
    switch (frame.type) {
      case "hello":
        this.delay = firstDelay;
        this.logID = frame.session.log_id;
        this.on.hello(frame.session);
        this.on.link(true);
        for (const asked of this.waiting.values()) this.socket.send(asked.text); // only those that may come twice
        return;
      case "reply": {
        const asked = this.waiting.get(frame.id);
        if (!asked) return;
        this.waiting.delete(frame.id);
        if (frame.ok) asked.resolve(frame.result);
        else asked.reject(new Error(frame.error.detail));
        return;
      }
      case "usage":
        this.on.usage(frame);
        return;
    }
    if (typeof frame.seq === "number") this.on.event(frame);
  }

  closed(close) {
    if (this.ended) return;
    this.on.link(false);
    for (const [id, asked] of this.waiting) {
      if (asked.again) continue;
      this.waiting.delete(id);
      asked.reject(new Error("The connection was lost; try again."));
    }
    if (close.code === 1000 && close.reason === "session_deleted") {
      this.end();
      this.on.gone();
      return;
    }
    const delay = this.delay * (0.75 + Math.random() / 2);
    this.delay = Math.min(this.delay * 2, lastDelay);
    this.timer = setTimeout(() => this.again(), delay);
  }

  // again asks first what a browser does not tell of a failed handshake.
  async again() {
    try {
      const answer = await fetch(`/v1/sessions/${encodeURIComponent(this.id)}`);
      if (this.ended) return;
      if (answer.status === 401) {
        location.reload();
        return;
      }
      if (answer.status === 404) {
        this.end();
        this.on.gone();
        return;
      }
      if (answer.ok && this.logID && (await answer.json()).log_id !== this.logID) {
        this.logID = undefined;
        this.on.changed();
      }
    } catch {
      // The server is not there; the attempt below fails alike and is made again later.
    }
    if (!this.ended) this.open();
  }

  // ask sends a frame and resolves with its reply. A frame that may come twice survives a lost connection.
  ask(fields, { id = `f${++this.serial}`, again = false } = {}) {
    return new Promise((resolve, reject) => {
      const up = this.socket.readyState === WebSocket.OPEN;
      if (!up && !again) {
        reject(new Error("Not connected; try again in a moment."));
        return;
      }
      const text = JSON.stringify({ id, ...fields });
      this.waiting.set(id, { text, again, resolve, reject });
      if (up) this.socket.send(text);
    });
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}
