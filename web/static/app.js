// The page: sessions on the left, the cells of one of them, and a cell to write the next.

import { call, newID, sessionPath } from "./api.js";
import { bytes, Cells } from "./cells.js";
import { indent } from "./editor.js";
import { Files } from "./files.js";
import { element } from "./output.js";
import { SessionSocket } from "./socket.js";
import { empty, reduce } from "./state.js";

const $ = (id) => document.getElementById(id);

let session = null; // as hello told it
let state = empty;
let socket = null;
let drawing = 0;

const cells = new Cells($("cells"), (code) => {
  $("composer-code").value = code;
  fit();
  $("composer-code").focus();
});
const files = new Files({ panel: $("files-panel"), list: $("files"), folder: $("folder"), input: $("upload") }, say);

let quiet = 0;
function say(text, stays = false) {
  clearTimeout(quiet);
  $("status").textContent = text;
  if (text && !stays) quiet = setTimeout(() => say(""), 6000);
}

const attempt = (work) => async (event) => {
  event?.preventDefault();
  try {
    await work(event);
  } catch (err) {
    say(err.message);
  }
};

// Sessions

async function listSessions() {
  const { items } = await call("GET", "/v1/sessions?limit=100");
  $("sessions").replaceChildren(...items.map(sessionRow));
}

function sessionRow(s) {
  const row = element("li");
  row.dataset.id = s.id;
  row.setAttribute("aria-current", String(s.id === socket?.id));
  const link = element("a", "", s.name || s.id);
  link.href = `#${encodeURIComponent(s.id)}`;
  const badge = element("span", "badge", s.state);
  badge.dataset.state = s.state;
  const remove = element("button", "plain", "Delete");
  remove.type = "button";
  remove.setAttribute("aria-label", `Delete session ${s.name || s.id}`);
  remove.addEventListener("click", attempt(async () => {
    if (!confirm(`Delete ${s.name || s.id} with its variables, files and history?`)) return;
    await call("DELETE", sessionPath(s.id));
    await listSessions();
  }));
  row.append(link, badge, remove);
  return row;
}

$("new-session").addEventListener("submit", attempt(async () => {
  const name = $("new-name").value.trim();
  const made = await call("POST", "/v1/sessions", name ? { name } : {});
  $("new-name").value = "";
  location.hash = encodeURIComponent(made.id);
  await listSessions();
}));

function openFromAddress() {
  const id = decodeURIComponent(location.hash.slice(1));
  if (!id || id === "composer-code") return;
  if (socket?.id !== id) openSession(id);
}

function openSession(id) {
  closeSession();
  socket = new SessionSocket(id, () => state.seq, {
    hello: (info) => {
      session = info;
      state = { ...state, state: info.state, reason: info.reason || "", generation: info.kernel.generation, pending: info.pending_input || null };
      say("");
      draw();
    },
    event: (event) => {
      if (event.seq !== state.seq + 1 && state.seq) return; // seen already
      state = reduce(state, event);
      if (event.type === "execution_finished") {
        files.refresh();
        if (document.visibilityState === "visible") announce(event.execution);
      }
      draw();
    },
    usage: showUsage,
    link: (up) => {
      if (!up) say("Connection lost; connecting again…", true);
    },
    changed: () => {
      state = empty;
      cells.clear();
    },
    gone: () => {
      closeSession();
      location.hash = "";
      say("The session is gone.");
      attempt(listSessions)();
    },
  });
  for (const part of ["session-bar", "cells", "composer"]) $(part).hidden = false;
  $("welcome").hidden = true;
  $("export").href = sessionPath(id, "/notebook");
  if (narrow.matches) $("sessions-panel").open = false;
  files.open(id);
  for (const row of $("sessions").children) row.setAttribute("aria-current", String(row.dataset.id === id));
  $("composer-code").focus();
}

function closeSession() {
  socket?.end();
  socket = null;
  session = null;
  state = empty;
  cells.clear();
  files.open(null);
  for (const part of ["session-bar", "cells", "composer", "question"]) $(part).hidden = true;
  $("welcome").hidden = false;
  $("usage").textContent = "";
}

function announce(execution) {
  if (execution.status !== "ok") say(`Cell ${execution.execution_count ?? ""}: ${execution.status}`);
}

// Drawing, at most once a frame

function draw() {
  if (drawing) return;
  drawing = requestAnimationFrame(() => {
    drawing = 0;
    if (socket && session) paint();
  });
}

function paint() {
  const near = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
  $("session-name").textContent = session.name || session.id;
  document.title = `${session.name || session.id} · Talaria`;
  $("state").dataset.state = state.state;
  $("state").textContent = state.state + (state.reason ? `: ${state.reason}` : "");
  $("generation").textContent = `Python ${session.kernel.python}, no. ${state.generation}`;
  $("isolation").textContent = `isolated: ${session.isolation.tier}`;
  $("isolation").title = session.isolation.layers.join("\n");
  $("network").textContent = session.network.mode === "none" ? "no network" : `network: ${session.network.mode}`;
  cells.sync(state);
  question();
  if (near) scrollTo({ top: document.documentElement.scrollHeight });
}

function showUsage(frame) {
  const parts = [`${bytes(frame.usage.memory_bytes)} of ${bytes(frame.limits.memory_bytes)} memory`];
  if (frame.reap_at) parts.push(`rests at ${new Date(frame.reap_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })}`);
  $("usage").textContent = parts.join(" · ");
}

function question() {
  const asked = state.pending;
  const form = $("question");
  if (form.hidden === !asked && form.dataset.request === (asked?.request_id ?? "")) return;
  form.hidden = !asked;
  form.dataset.request = asked?.request_id ?? "";
  if (!asked) return;
  $("prompt").textContent = asked.prompt || "The cell asks for input";
  $("answer").type = asked.password ? "password" : "text";
  $("answer").value = "";
  $("answer").focus();
}

$("question").addEventListener("submit", attempt(async () => {
  await socket.ask({ type: "input_reply", value: $("answer").value, request_id: state.pending?.request_id });
  $("composer-code").focus();
}));

// Commands

$("composer").addEventListener("submit", attempt(async () => {
  const code = $("composer-code").value;
  if (!code.trim()) return;
  const id = newID();
  $("composer-code").value = "";
  fit();
  try {
    await socket.ask({ type: "execute", code }, { id, again: true });
  } catch (err) {
    if (!$("composer-code").value) $("composer-code").value = code;
    throw err;
  }
}));

$("composer-code").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    $("composer").requestSubmit();
    return;
  }
  indent(event);
});

function fit() {
  const box = $("composer-code");
  box.rows = Math.max(3, Math.min(24, box.value.split("\n").length + 1));
}
$("composer-code").addEventListener("input", fit);

$("interrupt").addEventListener("click", attempt(() => socket.ask({ type: "interrupt" })));

$("reset").addEventListener("click", attempt(async () => {
  if (!confirm("Start Python anew? Variables are lost, files are kept.")) return;
  say("Starting Python anew…", true);
  await socket.ask({ type: "reset" });
  say("Python was started anew.");
}));

// Start

const narrow = matchMedia("(max-width: 50rem)");
$("files-panel").open = !narrow.matches;
addEventListener("hashchange", openFromAddress);
attempt(listSessions)();
openFromAddress();
