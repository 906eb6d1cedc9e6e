// The page's picture of one session, made from its log: (state, event) → state, and nothing else changes it.
// Parts that an event does not touch stay the same objects, so that a view can skip them.

const blockLines = 200;

export const empty = {
  seq: 0, state: "", reason: "", generation: 0, pending: null,
  order: [], // ids of executions, and notes as {note}
  cells: {}, // by execution id
};

export function reduce(state, event) {
  const next = { ...state, seq: event.seq };
  switch (event.type) {
    case "session_state":
      next.state = event.state;
      next.reason = event.reason || "";
      return next;
    case "kernel_reset":
      next.generation = event.generation;
      return note(next, `Python was started anew (${event.reason}); its variables are gone.`);
    case "kernel_died":
      next.pending = null;
      return note(next, `Python ended: ${event.reason}.`);
    case "input_request":
      next.pending = { request_id: event.request_id, prompt: event.prompt, password: event.password };
      return next;
    case "input_closed":
      if (next.pending && next.pending.request_id === event.request_id) next.pending = null;
      return next;
  }
  if (!event.execution_id) return event.type === "stream" ? note(next, event.text) : next;
  const cell = next.cells[event.execution_id] || newCell(event.execution_id);
  if (!next.cells[event.execution_id]) next.order = [...next.order, event.execution_id];
  next.cells = { ...next.cells, [event.execution_id]: reduceCell(cell, event) };
  return next;
}

const note = (state, text) => ({ ...state, order: [...state.order, { note: text }] });

const newCell = (id) => ({
  id, code: "", status: "queued", count: null, took: null, outputs: [], artifacts: [], clear: false,
});

function reduceCell(cell, event) {
  switch (event.type) {
    case "execution_queued":
      return { ...cell, code: event.code };
    case "execution_started":
      return { ...cell, code: event.code, status: "running", count: event.execution_count };
    case "execution_finished": {
      const e = event.execution;
      return {
        ...cell, code: e.code, status: e.status, reason: e.reason, lost: e.state === "lost", took: e.usage.duration_ms,
      };
    }
    case "stream":
      return withStream(cleared(cell), event);
    case "display_data":
    case "execute_result":
      return withOutput(cleared(cell), { kind: "data", data: event.data, metadata: event.metadata, displayID: event.display_id });
    case "error":
      return withOutput(cleared(cell), { kind: "error", text: event.traceback.join("\n") || `${event.ename}: ${event.evalue}` });
    case "update_display_data":
      return {
        ...cell,
        outputs: cell.outputs.map((o) =>
          o.displayID && o.displayID === event.display_id ? { ...o, data: event.data, metadata: event.metadata } : o,
        ),
      };
    case "clear_output":
      return event.wait ? { ...cell, clear: true } : { ...cell, outputs: [], clear: false };
    case "artifact":
      return { ...cell, artifacts: [...cell.artifacts, { path: event.path, change: event.change, url: event.url, size: event.size }] };
  }
  return cell;
}

const cleared = (cell) => (cell.clear ? { ...cell, outputs: [], clear: false } : cell);

const withOutput = (cell, output) => ({ ...cell, outputs: [...cell.outputs, output] });

// withStream keeps text in blocks of whole lines, which do not change once they are full, and the line being written.
function withStream(cell, event) {
  const last = cell.outputs.at(-1);
  const joins = last && last.kind === "stream" && last.name === event.name;
  const stream = joins ? { ...last } : { kind: "stream", name: event.name, blocks: [], lines: [], tail: "" };
  const parts = (stream.tail + event.text).split("\n");
  stream.tail = overwritten(parts.pop());
  stream.lines = [...stream.lines, ...parts.map(overwritten)];
  while (stream.lines.length >= blockLines) {
    stream.blocks = [...stream.blocks, stream.lines.slice(0, blockLines).join("\n")];
    stream.lines = stream.lines.slice(blockLines);
  }
  return { ...cell, outputs: [...(joins ? cell.outputs.slice(0, -1) : cell.outputs), stream] };
}

// overwritten is a line after its carriage returns, as a terminal shows it. One at the very end waits for what follows.
function overwritten(line) {
  if (!line.includes("\r")) return line;
  const end = line.endsWith("\r") ? "\r" : "";
  let shown = "";
  for (const part of line.split("\r")) shown = part + shown.slice(part.length);
  return shown + end;
}
