import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { cut, restyle, type StyleRun } from "../src/ansi/runs";
import { Screen, settled, spans, type Line } from "../src/ansi/screen";
import { intern, plain, type Style } from "../src/ansi/style";

interface Vector { name: string; input: string; lines: string[] }
const vectors = JSON.parse(readFileSync(new URL("ansi.json", import.meta.url), "utf8")) as Vector[];

test("styles that are many are dropped", () => {
  const first = intern({ fg: "#000001" });
  expect(intern({ fg: "#000001" })).toBe(first);
  for (let i = 2; i < 20_000; i++) intern({ fg: `#${i.toString(16).padStart(6, "0")}` });
  expect(intern({ fg: "#000001" })).not.toBe(first);
  expect(intern({})).toBe(plain);
});

describe("text as a terminal shows it", () => {
  test.each(vectors)("$name", ({ input, lines }) => {
    expect(settled(input).split("\n")).toEqual(lines);
  });

  test.each(vectors)("$name, in pieces of every size", ({ input, lines }) => {
    for (let size = 1; size <= Math.min(input.length, 24); size++) {
      const screen = new Screen();
      for (let at = 0; at < input.length; at += size) screen.write(input.slice(at, at + size));
      expect(screen.lines.map((line) => line.text)).toEqual(lines);
    }
  });
});

const styled = (input: string) => {
  const screen = new Screen();
  screen.write(input);
  return screen.lines.map((line) => spans(line).map((span) => [span.text, span.style === plain ? {} : { ...span.style }]));
};

describe("colours", () => {
  test("16 of the palette, and back to none", () => {
    expect(styled("\x1b[31mred\x1b[0m plain \x1b[1;92mbold\x1b[m")).toEqual([[["red", { fg: 1 }], [" plain ", {}], ["bold", { bold: true, fg: 10 }]]]);
  });
  test("256 and true colours", () => {
    expect(styled("\x1b[38;5;196ma\x1b[48;2;1;2;3mb\x1b[38;5;3;49mc")).toEqual([[["a", { fg: "#ff0000" }], ["b", { fg: "#ff0000", bg: "#010203" }], ["c", { fg: 3 }]]]);
  });
  test("a style goes on over lines and pieces", () => {
    const screen = new Screen();
    screen.write("\x1b[3");
    screen.write("2mone\ntw");
    screen.write("o");
    expect(screen.lines.map(spans)).toMatchObject([[{ text: "one", style: { fg: 2 } }], [{ text: "two", style: { fg: 2 } }]]);
  });
  test("overwriting keeps the styles around it", () => {
    expect(styled("\x1b[31mabc\x1b[0m\r\x1b[1Cx")).toEqual([[["a", { fg: 1 }], ["x", {}], ["c", { fg: 1 }]]]);
  });
  test("colours out of range are none", () => {
    expect(styled("\x1b[38;5;999mx\x1b[38;2;300;0;0my")).toEqual([[["xy", {}]]]);
  });
});

describe("what changed", () => {
  const told = (screen: Screen) => {
    const { kept, rewritten } = screen.changes();
    return [kept, ...rewritten];
  };
  test("is told once: the rows that are still there, and which of them have other text", () => {
    const screen = new Screen();
    screen.write("a\nb\nc");
    expect(told(screen)).toEqual([0]);
    expect(told(screen)).toEqual([3]);
    screen.write("\x1b[1Ax");
    expect(told(screen)).toEqual([3, 1]);
    screen.write("\n\n");
    expect(told(screen)).toEqual([3]);
    screen.write("\x1b[2Jnew\nrows");
    expect(told(screen)).toEqual([0]);
  });
});

describe("hostile text", () => {
  // work is the time of the fastest of three, so that a pause of the machine does not count.
  const work = (text: string) => Math.min(...[1, 2, 3].map(() => {
    const start = performance.now();
    settled(text);
    return performance.now() - start;
  }));
  const linear = (unit: string, count: number) => {
    const once = work(unit.repeat(count));
    expect(work(unit.repeat(4 * count))).toBeLessThan(40 * Math.max(once, 10));
  };

  test("an escape sequence without an end is not kept for ever", () => {
    const screen = new Screen();
    for (let i = 0; i < 100; i++) screen.write(`\x1b]0;${"x".repeat(100)}`);
    screen.write("\x07end");
    expect(screen.lines.at(-1)?.text.endsWith("end")).toBe(true);
    expect(settled(`\x1b]0;${"x".repeat(9000)}`).endsWith("x")).toBe(true);
    expect(settled("\x1b]8;;http://a/" + "x".repeat(2000) + "\x1b\\link\x1b]8;;\x07")).toBe("link");
  });
  test.each(["\x1b]", "\x1bP", "\x1b]\x1b", "\x1b[", "\x1b[1", "\x1b[31mx", "\x1b[9999Cx", "\x1b[38;2;1;2;3mx\x1b[0m y", "x\b", "\rx", "x\x1b[A", "\n", "\x1b[2Jx\n"])("%j takes time in proportion", (unit) => linear(unit, Math.ceil(32_000 / unit.length)));
  test("moves do not make lines", () => {
    const screen = new Screen();
    screen.write("\x1b[9999Bx\x1b[9999Ay\x1b[9999;9999H");
    expect(screen.lines.length).toBe(1);
  });
  test("moves end at the last column, and cost no styles for what they pass", () => {
    const screen = new Screen();
    screen.write(`\x1b[31m${"\x1b[9999C".repeat(104)}x`);
    expect(screen.lines.map((line) => line.text.length)).toEqual([10_000]);
    expect(screen.lines[0]?.runs).toEqual([{ end: 9999, style: plain }, { end: 10_000, style: intern({ fg: 1 }) }]);
  });
  test("a line has a bounded number of styles", () => {
    const screen = new Screen();
    for (let i = 0; i < 9000; i++) screen.write(`\x1b[3${i % 8}mx`);
    expect(screen.lines[0]?.runs?.length).toBeLessThanOrEqual(1000);
    expect(spans(screen.lines[0] as Line).map((s) => s.text).join("")).toBe("x".repeat(9000));
  });
  test("a line of many megabytes is cut into lines", () => {
    const screen = new Screen();
    screen.write("x".repeat(3 << 20));
    expect(screen.lines.length).toBe(Math.ceil((3 << 20) / 10_000));
  });
  test.each([["lines", "\n", 900_000], ["wide lines", "\x1b[9999Cx\n", 9_000]])("%s are dropped from the top when there are too many", (_name, unit, count) => {
    const screen = new Screen();
    screen.write(unit.repeat(count) + "end");
    expect(screen.dropped + screen.lines.length).toBe(count + 1);
    expect(screen.lines.length).toBeLessThanOrEqual(250_000);
    expect(screen.lines.reduce((size, line) => size + line.text.length, 0)).toBeLessThanOrEqual(16 << 20);
    expect(screen.lines.at(-1)?.text).toBe("end");
    expect(settled(unit.repeat(count))).toMatch(/^\[\d+ earlier lines are left out here\]\n/);
  });
});

describe("runs of styles", () => {
  test("are what one style per column would be, whatever is written where", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 48271) % 2147483647) % n;
    const colours = [plain, ...[1, 2, 3].map((fg) => intern({ fg }))];
    for (let round = 0; round < 300; round++) {
      let runs: StyleRun[] | undefined;
      let columns: Style[] = [];
      for (let step = 0; step < 30; step++) {
        const from = random(30);
        const style = colours[random(4)] ?? plain;
        if (random(6) === 0) {
          columns = columns.slice(0, from);
          runs = cut(runs, columns.length);
        } else {
          const to = from + 1 + random(6);
          runs = restyle(runs, columns.length, from, to, style);
          while (columns.length < from) columns.push(plain);
          for (let i = from; i < to; i++) columns[i] = style;
        }
        const got = spans({ text: "x".repeat(columns.length), runs }).flatMap((s) => [...s.text].map(() => s.style));
        expect(got).toEqual(columns);
        for (let i = 1; i < (runs?.length ?? 0); i++) expect(runs?.[i]?.style).not.toBe(runs?.[i - 1]?.style);
      }
    }
  });
});
