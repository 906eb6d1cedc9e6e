// The list of cells: one article for each execution, one line for each note.

import { element, syncOutputs } from "./output.js";

const words = {
  queued: "waiting", running: "running", ok: "done", error: "failed", timeout: "timed out", interrupted: "interrupted",
  cancelled: "cancelled", died: "Python ended",
};

export class Cells {
  constructor(box, again) {
    this.box = box;
    this.again = again; // called with the code to run again
    this.clear();
  }

  clear() {
    this.box.replaceChildren();
    this.nodes = new Map();
    this.shown = [];
  }

  sync(state) {
    for (let i = this.shown.length; i < state.order.length; i++) {
      const entry = state.order[i];
      this.box.append(typeof entry === "string" ? this.cell(entry) : element("p", "note", entry.note));
    }
    this.shown = state.order;
    for (const [id, node] of this.nodes) {
      const cell = state.cells[id];
      if (node.cell !== cell) this.update(node, cell);
    }
  }

  cell(id) {
    const node = element("article", "cell");
    node.head = element("div", "head");
    node.number = element("span");
    node.word = element("span");
    const again = element("button", "plain again", "Edit and run again");
    again.type = "button";
    again.addEventListener("click", () => this.again(node.cell.code));
    node.head.append(node.number, node.word, again);
    node.code = element("pre", "code");
    node.code.tabIndex = 0;
    node.outputs = element("div", "outputs");
    node.artifacts = element("ul", "artifacts");
    node.append(node.head, node.code, node.outputs, node.artifacts);
    this.nodes.set(id, node);
    return node;
  }

  update(node, cell) {
    const before = node.cell;
    node.cell = cell;
    const number = cell.count === null ? "" : ` ${cell.count}`;
    node.number.textContent = `Cell${number}`;
    node.setAttribute("aria-label", `Cell${number}, ${words[cell.status] || cell.status}`);
    node.dataset.status = cell.status;
    node.word.textContent = describe(cell);
    if (before?.code !== cell.code) node.code.textContent = cell.code;
    if (before?.outputs !== cell.outputs) syncOutputs(node.outputs, cell.outputs);
    if (before?.artifacts !== cell.artifacts) node.artifacts.replaceChildren(...cell.artifacts.map(artifact));
  }
}

function describe(cell) {
  let text = words[cell.status] || cell.status;
  if (cell.reason && cell.reason !== cell.status) text += ` (${cell.reason})`;
  if (cell.took !== null && cell.status !== "cancelled") text += ` in ${duration(cell.took)}`;
  if (cell.lost) text += "; variables are lost";
  return text;
}

const duration = (ms) => (ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`);

function artifact(a) {
  const item = element("li", "", `${a.change}: `);
  if (!a.url) {
    item.append(a.path);
    return item;
  }
  const link = element("a", "", a.path);
  link.href = a.url;
  link.download = a.path.split("/").at(-1);
  item.append(link, ` (${bytes(a.size)})`);
  return item;
}

export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i ? n.toFixed(1) : n} ${units[i]}`;
}
