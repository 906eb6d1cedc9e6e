// Notebook files of nbformat 4: outputs to and from the page's own form.

import type { Output, Run } from "../log/state";
import { Rope } from "../log/rope";
import type { Bundle, Cell, Json } from "../proto/types";

export interface NotebookCell { id?: string; cell_type: string; source: string | string[]; metadata?: Json; outputs?: Json[]; execution_count?: number | null }
export interface Notebook { nbformat: number; nbformat_minor: number; metadata: Json; cells: NotebookCell[] }

export interface Imported { outputs: Output[]; count: number | null }

const joined = (text: Json | undefined): string =>
  typeof text === "string" ? text : Array.isArray(text) ? text.filter((t) => typeof t === "string").join("") : "";

const isObject = (value: Json | undefined): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

// outputsOf reads a file's outputs. What it does not know is passed over.
export function outputsOf(cell: NotebookCell): Output[] {
  const outputs: Output[] = [];
  for (const o of cell.outputs ?? []) {
    if (!isObject(o)) continue;
    switch (o["output_type"]) {
      case "stream":
        outputs.push({ kind: "stream", name: o["name"] === "stderr" ? "stderr" : "stdout", text: Rope.of(joined(o["text"])) });
        break;
      case "display_data":
      case "execute_result":
        if (isObject(o["data"])) {
          outputs.push({
            kind: "data", data: o["data"] as Bundle, metadata: isObject(o["metadata"]) ? o["metadata"] : {},
            count: typeof o["execution_count"] === "number" ? o["execution_count"] : undefined,
          });
        }
        break;
      case "error":
        outputs.push({
          kind: "error", ename: joined(o["ename"]), evalue: joined(o["evalue"]),
          traceback: Array.isArray(o["traceback"]) ? o["traceback"].map((line) => joined(line)) : [],
        });
    }
  }
  return outputs;
}

// importedOutputs is what a notebook file shows beneath its cells, by the cells' ids.
export function importedOutputs(file: Notebook): Map<string, Imported> {
  const found = new Map<string, Imported>();
  for (const cell of file.cells) {
    const origin = isObject(cell.metadata ?? null) ? (cell.metadata as { talaria?: Json }).talaria : undefined;
    if (cell.cell_type !== "code" || !cell.id || origin) continue; // what an execution made is in the log
    const outputs = outputsOf(cell);
    if (outputs.length) found.set(cell.id, { outputs, count: cell.execution_count ?? null });
  }
  return found;
}

// toFile is the outputs of a run as a notebook file has them. Questions are not part of it.
export function toFile(outputs: readonly Output[]): Json[] {
  const out: Json[] = [];
  for (const o of outputs) {
    if (o.kind === "stream") out.push({ output_type: "stream", name: o.name, text: o.text.toString() });
    else if (o.kind === "error") out.push({ output_type: "error", ename: o.ename, evalue: o.evalue, traceback: o.traceback });
    else if (o.kind === "data") {
      out.push(o.count === undefined
        ? { output_type: "display_data", data: o.data, metadata: o.metadata }
        : { output_type: "execute_result", data: o.data, metadata: o.metadata, execution_count: o.count });
    }
  }
  return out;
}

export function toNotebook(cells: readonly Cell[], runOf: (cell: Cell) => Run | undefined): Notebook {
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { display_name: "Python 3", language: "python", name: "python3" }, language_info: { name: "python" } },
    cells: cells.map((cell) => {
      const id = cell.id.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, 64);
      if (cell.cell_type !== "code") return { id, cell_type: cell.cell_type, metadata: {}, source: cell.source };
      const run = runOf(cell);
      return { id, cell_type: "code", metadata: {}, source: cell.source, execution_count: run?.count ?? null, outputs: run ? toFile(run.outputs) : [] };
    }),
  };
}
