import { expect, test } from "vitest";
import { importedOutputs, type Notebook } from "../src/ipynb/nbformat";
import type { Cut, Json } from "../src/proto/types";
import { attempt, treeExcerpt } from "../src/render/excerpt";
import { fileOf, textOf } from "../src/render/take";
import { parseTable } from "../src/render/table";

interface Display { data: { [mime: string]: Json }; metadata: Json; cut?: Cut }

async function parsed<T = Display>(work: "message" | "notebook", value: unknown): Promise<T> {
  const answer = await attempt({ work, text: JSON.stringify(value) });
  if (!answer.ok) throw new Error(answer.why);
  return structuredClone(answer.result) as T; // as a worker hands it over
}

const count = (value: Json): number => (typeof value === "object" && value !== null ? Object.values(value).reduce((n: number, v) => n + count(v as Json), 1) : 1);

test("large JSON comes in part, with its true sizes and the whole beside it", async () => {
  const value = Array.from({ length: 50_000 }, (_, i) => [i, { __proto__: null, a: i }]);
  const event = await parsed("message", { seq: 1, type: "display_data", data: { "application/json": value, "text/plain": "x".repeat(400_000) }, metadata: { a: 1 } });
  const shown = event.data["application/json"] as Json[];
  expect([shown.length, event.cut?.sizes.get(shown)]).toEqual([200, 50_000]);
  expect(shown[199]).toEqual([199, { a: 199 }]);
  expect([event.data["text/plain"]?.toString().length, event.metadata]).toEqual([400_000, { a: 1 }]);
  const output = { kind: "data" as const, ...event, metadata: {} };
  expect(JSON.parse(await textOf(output))).toEqual(JSON.parse(JSON.stringify(value)));
  expect(await (await fileOf(output))?.blob?.text()).toBe(JSON.stringify(value));
});

test("an excerpt of a tree is bounded however it branches, and keeps odd names", async () => {
  const wide = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [i, Array.from({ length: 100 }, () => [1, 2, 3])]));
  const sizes = new Map<object, number>();
  const shown = treeExcerpt(wide, sizes, 1000) as { [key: string]: Json[] };
  expect(count(shown)).toBeLessThanOrEqual(1001);
  expect(sizes.get(shown["99"] as object)).toBe(100);
  const odd = JSON.parse('{"__proto__": {"a": 1}}') as Json;
  expect(JSON.stringify(treeExcerpt(odd, new Map(), 10))).toBe('{"__proto__":{"a":1}}');
  const deep = `{"seq":1,"type":"display_data","data":{"application/json":${"[".repeat(10_000)}${"]".repeat(10_000)}},"metadata":{}}`;
  const answer = await attempt({ work: "message", text: deep });
  const event = structuredClone(answer.ok && answer.result) as Display;
  expect(event.cut?.whole.get("application/json")?.size).toBe(deep.length);
});

test("large arguments of a tool call come in part", async () => {
  const text = `{"seq":1,"type":"tool_call","arguments":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`;
  const answer = await attempt({ work: "message", text });
  const event = structuredClone(answer.ok && answer.result) as { arguments: Json };
  expect(JSON.stringify(event.arguments).length).toBeLessThan(2000);
});

test("a large table comes with what is shown of it", async () => {
  const table = { schema: { fields: Array.from({ length: 400 }, (_, i) => ({ name: String(i), type: "number", null_count: i })), primaryKey: ["0"] },
    data: Array.from({ length: 1500 }, (_, j) => Array.from({ length: 400 }, (_, i) => i + j / 7)), total_rows: 9000, table_id: "t" };
  const event = await parsed("message", { seq: 1, type: "execute_result", data: { "application/vnd.dataresource+json": table }, metadata: {} });
  const got = event.data["application/vnd.dataresource+json"] as Json;
  expect(count(got)).toBeLessThan(60_000);
  expect(parseTable(got)).toEqual(JSON.parse(JSON.stringify(parseTable(table)), (_, v) => v as Json));
});

test("a large notebook file is read likewise, and cannot forge an excerpt", async () => {
  const cell = (id: string, extra: object, metadata: object = {}) => ({ id, cell_type: "code", source: "", metadata, outputs: [{ output_type: "display_data", metadata: {}, ...extra }] });
  const file = { nbformat: 4, nbformat_minor: 5, metadata: {}, cells: [
    cell("a", { data: { "application/json": Array.from({ length: 40_000 }, () => [0]) } }),
    cell("b", { data: { "text/html": Array.from({ length: 40_000 }, () => "<b>\n") }, cut: { whole: {}, sizes: {} } }),
    cell("c", { data: {} }, { talaria: {} })] };
  const found = importedOutputs(await parsed<Notebook>("notebook", file));
  expect([...found.keys()]).toEqual(["a", "b"]);
  const [a, b] = [...found.values()].map((i) => i.outputs[0] as unknown as Display);
  expect([(a?.data["application/json"] as Json[]).length, a?.cut?.whole.size]).toEqual([200, 1]);
  expect([typeof b?.data["text/html"], b?.cut]).toEqual(["string", undefined]);
});

test("what is not JSON is told of", async () => {
  expect((await attempt({ work: "message", text: "{" })).ok).toBe(false);
});
