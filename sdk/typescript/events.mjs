// Writes src/events.ts, the types of events and executions, from the golden files of the wire contract.
import { readFileSync, readdirSync, writeFileSync } from "node:fs";

const golden = new URL("../../api/testdata/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, golden), "utf8"));
const files = readdirSync(golden).sort();

// Maps whose keys are data, and fields of which the golden files show only some values.
const fixed = {
  data: "Record<string, any>", metadata: "Record<string, any>", status: "string", state: "string",
  name: "string", execution_count: "number | null", outputs: "Record<string, any>[]",
  started_at: "string | null", finished_at: "string | null", arguments: "any", values: "Record<string, any>",
};
// Fields that may be missing although each golden file has them.
const optional = new Set(["execution_id", "display_id", "reason", "exit_code", "signal", "limit", "cell"]);

function typeOf(key, values, indent) {
  if (key in fixed && !(key === "data" && typeof values[0] === "string")) return fixed[key];
  if (key === "error" && "ename" in values[0]) return 'Pick<ErrorEvent, "ename" | "evalue" | "traceback" | "hint" | "frames">';
  if (Array.isArray(values[0])) {
    const items = values.flat();
    if (!items.length) return "Record<string, any>[]";
    return typeof items[0] === "object" ? `${typeOf("", items, indent)}[]` : `${typeof items[0]}[]`;
  }
  if (values[0] !== null && typeof values[0] === "object") return shape(values, indent);
  return [...new Set(values.map((v) => (v === null ? "null" : typeof v)))].join(" | ");
}

function shape(samples, indent = "") {
  const keys = [...new Set(samples.flatMap(Object.keys))];
  const lines = keys.map((key) => {
    const values = samples.filter((s) => key in s).map((s) => s[key]);
    const type = key === "type" && samples[0].seq ? JSON.stringify(values[0]) : typeOf(key, values, indent + "  ");
    return `${indent}  ${key}${optional.has(key) || values.length < samples.length ? "?" : ""}: ${type};`;
  });
  return `{\n${lines.join("\n")}\n${indent}}`;
}

const byType = new Map();
for (const name of files.filter((f) => f.startsWith("event_"))) {
  const event = read(name);
  byType.set(event.type, [...(byType.get(event.type) ?? []), event]);
}
const pascal = (type) => type.split("_").map((w) => w[0].toUpperCase() + w.slice(1)).join("") + "Event";

let out = "// Made by events.mjs from the golden files of the wire contract. Do not edit.\n";
for (const [type, samples] of byType) out += `\nexport interface ${pascal(type)} ${shape(samples)}\n`;
out += `\n/** An event of a session's log. The server may send further types: ignore them. */\n`;
out += `export type TalariaEvent =\n${[...byType.keys()].map((t) => `  | ${pascal(t)}`).join("\n")};\n`;
const executions = files.filter((f) => f.startsWith("execution")).map(read);
executions.push(...byType.get("execution_finished").map((e) => e.execution));
out += `\n/** An execution as the server sends it. */\nexport interface RawExecution ${shape(executions)}\n`;
writeFileSync(new URL("src/events.ts", import.meta.url), out);
