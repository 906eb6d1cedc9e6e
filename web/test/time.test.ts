// What reads outputs takes time in proportion to them, whatever they are made of.

import { expect, test } from "vitest";
import { settled } from "../src/ansi/screen";
import { takeMath } from "../src/render/mathspans";
import { hasScripts } from "../src/render/mime";
import { isLight } from "../src/render/svg";
import { Tidy } from "../src/render/tidy";
import { parts } from "../src/render/traceback";

const readers: Record<string, (text: string) => unknown> = {
  settled, takeMath, hasScripts,
  tidy: (text) => {
    const tidy = new Tidy();
    return tidy.write(text) + tidy.end();
  },
  svg: (text) => isLight(text.slice(0, 1 << 16)),
  traceback: (text) => parts(text.split("\n")),
};

const fragments = ["\x1b]", "\x1b[", "\x1b[31m", "\x1b[9999C", "\x1b\\", "\x07", "\r", "\b", "\t", "\n", "\x1b[A", "\x1b[K", "\x1b[2J", "a", "  ", "é", "👍", "\u0628",
  "<a ", "<b>", "</b>", "<div ", "<!--", "-->", "<script>", "</", ">", "=", "\"", "'", " onx=1", " a=\"", "<p>", "<li>", "<path id=\"", "<use href=\"#a\"", "href=",
  "$", "$$", "\\[", "\\]", "\\(", "\\", "`", "``", "```", "~~~", "  File \"", "\", line 1", ", in f", "File :1", "Cell In[1], line 2", "1", "on", "javascript:", "\uE000"];

let seed = 11;
const random = (n: number): number => (seed = (seed * 48271) % 2147483647) % n;

// compose is a few fragments again and again, behind others, as texts are that a reader goes back in.
function compose(length: number, head: readonly string[], body: readonly string[]): string {
  const unit = body.join("");
  return head.join("") + unit.repeat(Math.ceil(length / unit.length));
}

const timed = (read: () => unknown): number => {
  const start = performance.now();
  read();
  return performance.now() - start;
};

test.each(Object.entries(readers))("%s takes no more than its share", (_name, read) => {
  const end = performance.now() + 4000;
  for (let round = 0; round < 150 && performance.now() < end; round++) {
    const pick = (most: number) => Array.from({ length: 1 + random(most) }, () => fragments[random(fragments.length)] as string);
    const [head, body] = [pick(3), pick(4)];
    const [small, large] = [compose(32_000, head, body), compose(256_000, head, body)];
    // Eight times the text: what is quadratic takes 64 times as long, however often it is tried on a busy machine.
    const bound = 50 * Math.max(timed(() => read(small)), 20);
    let took = Infinity;
    for (let tries = 0; tries < 4 && took >= bound; tries++) took = Math.min(took, timed(() => read(large)));
    expect(took, JSON.stringify([head, body])).toBeLessThan(bound);
  }
});
