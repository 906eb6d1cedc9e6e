// Notebook files of nbformat 4: outputs in the page's own form.

import type { Output } from "../log/state";
import { Rope } from "../log/rope";
import type { Bundle, Cut, Json } from "../proto/types";

export interface NotebookCell { id?: string; cell_type: string; source: string | string[]; metadata?: Json; outputs?: Json[]; execution_count?: number | null }
export interface Notebook { nbformat: number; nbformat_minor: number; metadata: Json; cells: NotebookCell[] }

export interface Imported { outputs: Output[]; count: number | null }

const joined = (text: Json | undefined): string =>
  typeof text === "string" ? text : Array.isArray(text) ? text.filter((t) => typeof t === "string").join("") : "";

const isObject = (value: Json | undefined): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

// cutOf is what the worker says of a large output. A file has no Map, whatever it has under that name.
function cutOf(output: { cut?: unknown }): Cut | undefined {
  const cut = output.cut as Partial<Cut> | undefined;
  return cut?.whole instanceof Map ? cut as Cut : undefined;
}

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
            cut: cutOf(o),
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
