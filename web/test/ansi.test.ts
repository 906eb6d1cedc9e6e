import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { Screen, settled, spans } from "../src/ansi/screen";
import { plain } from "../src/ansi/style";

interface Vector { name: string; input: string; lines: string[] }
const vectors = JSON.parse(readFileSync(new URL("ansi.json", import.meta.url), "utf8")) as Vector[];

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
  test("is told once, from the first line that changed", () => {
    const screen = new Screen();
    screen.write("a\nb\nc");
    expect(screen.changed()).toBe(0);
    expect(screen.changed()).toBe(3);
    screen.write("\x1b[1Ax");
    expect(screen.changed()).toBe(1);
    screen.write("\n\n");
    expect(screen.changed()).toBe(3);
  });
});

describe("hostile text", () => {
  test("an escape sequence without an end is not kept for ever", () => {
    const screen = new Screen();
    for (let i = 0; i < 100; i++) screen.write(`\x1b]0;${"x".repeat(100)}`);
    screen.write("\x07end");
    expect(screen.lines.at(-1)?.text.endsWith("end")).toBe(true);
  });
  test("moves do not make lines", () => {
    const screen = new Screen();
    screen.write("\x1b[9999Bx\x1b[9999Ay\x1b[9999;9999H");
    expect(screen.lines.length).toBe(1);
  });
  test("a line of many megabytes is cut into lines", () => {
    const screen = new Screen();
    screen.write("x".repeat(3 << 20));
    expect(screen.lines.length).toBe(3);
  });
});
