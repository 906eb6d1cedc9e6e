// From key strokes to actions.

import { actions, type Action, type Mode } from "./table";

export interface Stroke { key: string; ctrlKey: boolean; metaKey: boolean; altKey: boolean; shiftKey: boolean; code?: string }

// named is a stroke as the table writes it. For a single character Shift is part of it where it changes the character
// ("?"), and said where it only makes a capital ("Shift-m").
export function named(stroke: Stroke, mac: boolean): string {
  const mod = mac ? stroke.metaKey : stroke.ctrlKey;
  const other = mac ? stroke.ctrlKey : stroke.metaKey;
  let key = stroke.key;
  let shift = stroke.shiftKey;
  if (stroke.code === "Minus" && (mod || stroke.altKey)) key = "Minus";
  else if (key.length === 1) {
    const lower = key.toLowerCase();
    if (lower === key.toUpperCase()) shift = false;
    key = lower;
  }
  return [other ? "Other-" : "", mod ? "Mod-" : "", stroke.altKey ? "Alt-" : "", shift ? "Shift-" : "", key].join("");
}

export type Found = { action: Action } | "more" | undefined;

const pause = 900; // ms within which the second key of a sequence comes

// Keys finds actions for strokes, and remembers the first key of a sequence for a moment.
export class Keys {
  private pending = "";
  private at = 0;

  constructor(private readonly mac: boolean) {}

  press(stroke: Stroke, mode: Exclude<Mode, "any">, now: number): Found {
    if (["Shift", "Control", "Alt", "Meta"].includes(stroke.key)) return undefined;
    const name = named(stroke, this.mac);
    const first = now - this.at < pause ? this.pending : "";
    this.pending = "";
    const fits = (keys: string) => actions.find((a) => a.keys?.some((b) => (b.mode === "any" || b.mode === mode) && b.keys === keys));
    const found = (first && fits(`${first} ${name}`)) || fits(name);
    if (found) return { action: found };
    const begins = actions.some((a) => a.keys?.some((b) => (b.mode === "any" || b.mode === mode) && b.keys.startsWith(`${name} `)));
    if (!begins) return undefined;
    this.pending = name;
    this.at = now;
    return "more";
  }
}

const symbols: Record<string, string> = {
  ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", Minus: "-", Escape: "Esc", Enter: "Enter",
};

// shown is a binding for people.
export function shown(keys: string, mac: boolean): string[] {
  return keys.split(" ").map((stroke) => {
    const parts = stroke === "-" ? ["-"] : stroke.split("-");
    const key = parts.pop() ?? "";
    const mods = parts.map((m) => (m === "Mod" ? (mac ? "⌘" : "Ctrl") : m === "Alt" && mac ? "⌥" : m === "Shift" && mac ? "⇧" : m));
    return [...mods, symbols[key] ?? (key.length === 1 ? key.toUpperCase() : key)].join(mac ? "" : "+");
  });
}

// matches ranks how well a title fits what was typed, and after it other words for the same: 0 not at all, more is better.
export function matches(title: string, typed: string, also = ""): number {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  let score = 1;
  for (const word of words) {
    const part = Math.max(3 * rank(title.toLowerCase(), word), rank(also, word));
    if (!part) return 0;
    score += part;
  }
  return score;
}

// rank is higher for the start of a text than for the start of a word, and for that than for the rest of a word.
function rank(text: string, word: string): number {
  const at = ` ${text}`.indexOf(` ${word}`);
  return at === 0 ? 3 : at > 0 ? 2 : text.includes(word) ? 1 : 0;
}
