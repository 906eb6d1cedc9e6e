// A traceback as parts: the user's own frames stay open, runs of library frames fold.

import { settled } from "../ansi/screen";
import type { ErrorFrame } from "../proto/types";

export interface Frame { file: string; line: number; name: string; text: string; mine: boolean; cell?: number; run?: string }
export interface Part { kind: "text" | "frames"; text: string; frames: Frame[]; mine: boolean; library: string }

const plainFrame = /^ {2}File "([^"\n]+)", line (\d+)(?:, in (.*))?$/;
const ipythonFrame = /^(?:Cell In\s?\[(\d+)\], line (\d+)|File (\S+?):(\d+), in (.+)|Input In \[(\d+)\], in .*)/;

function frameOf(line: string): Frame | undefined {
  const p = plainFrame.exec(line);
  if (p) {
    const file = p[1] ?? "";
    const cell = /^<cell (\d+)>$/.exec(file) ?? /^<ipython-input-(\d+)-/.exec(file);
    const mine = /^</.test(file) && !/^<frozen/.test(file) || file.startsWith("/workspace");
    return { file, line: Number(p[2]), name: p[3] ?? "", text: line, mine, cell: cell ? Number(cell[1]) : undefined };
  }
  const i = ipythonFrame.exec(line);
  if (!i) return undefined;
  if (i[1] ?? i[6]) return { file: "", line: Number(i[2] ?? 0), name: "", text: line, mine: true, cell: Number(i[1] ?? i[6]) };
  return { file: i[3] ?? "", line: Number(i[4]), name: i[5] ?? "", text: line, mine: (i[3] ?? "").includes("/workspace") };
}

const maxPiece = 100_000; // characters of a piece that are read
const maxLine = 2000; // characters of a line that are shown

const cutAt = (text: string, most: number): string => (text.length > most ? `${text.slice(0, most)}…` : text);
const readable = (text: string): string => settled(cutAt(text, maxPiece)).split("\n").map((line) => cutAt(line, maxLine)).join("\n");

// parts folds by what the server says of the frames; what it says nothing of, such as an imported notebook, is read.
export function parts(traceback: readonly string[], frames: readonly ErrorFrame[] = []): Part[] {
  return frames.length ? told(traceback, frames) : read(traceback);
}

function told(traceback: readonly string[], frames: readonly ErrorFrame[]): Part[] {
  const out: Part[] = [];
  let at = 0;
  const text = (until: number) => {
    const lines = until > at ? traceback.slice(at, until).map(readable).join("\n") : "";
    at = Math.max(at, Math.min(until, traceback.length));
    return lines;
  };
  for (const f of frames) {
    const before = text(f.traceback_start);
    if (before) out.push({ kind: "text", text: before, frames: [], mine: true, library: "" });
    const frame: Frame = { file: f.file, line: f.line, name: f.function, text: text(f.traceback_end), mine: f.user, run: f.cell };
    const last = out.at(-1);
    if (last?.kind === "frames" && last.mine === f.user) last.frames.push(frame);
    else out.push({ kind: "frames", text: "", frames: [frame], mine: f.user, library: "" });
  }
  const rest = text(traceback.length);
  if (rest) out.push({ kind: "text", text: rest, frames: [], mine: true, library: "" });
  for (const part of out) part.library = libraryOf(part.frames);
  return out;
}

function read(traceback: readonly string[]): Part[] {
  const out: Part[] = [];
  let frame: Frame | undefined;
  for (const line of traceback.flatMap((piece) => readable(piece).split("\n"))) {
    const found = frameOf(line);
    if (found) {
      frame = found;
      const last = out.at(-1);
      if (last?.kind === "frames" && last.mine === found.mine) last.frames.push(frame);
      else out.push({ kind: "frames", text: "", frames: [frame], mine: found.mine, library: "" });
      continue;
    }
    if (frame && /^\s|^$|^-+>/.test(line)) {
      frame.text += `\n${line}`;
      continue;
    }
    frame = undefined;
    const last = out.at(-1);
    if (last?.kind === "text") last.text += `\n${line}`;
    else out.push({ kind: "text", text: line, frames: [], mine: true, library: "" });
  }
  for (const part of out) part.library = libraryOf(part.frames);
  return out;
}

const frameSize = 500; // a frame costs as much as so many characters

// ending is the end of a traceback, for as many characters as there is room, and tells whether that is not all of it.
export function ending(all: readonly Part[], room: number): { shown: Part[]; cut: boolean } {
  const shown: Part[] = [];
  const take = (text: string): string => {
    const end = text.length > room ? `…${text.slice(-room)}` : text;
    room -= text.length + frameSize;
    return end;
  };
  for (let i = all.length - 1; i >= 0; i--) {
    const part = all[i] as Part;
    if (room <= 0) return { shown: shown.reverse(), cut: true };
    const text = take(part.text);
    const frames: Frame[] = [];
    for (let j = part.frames.length - 1; j >= 0 && room > 0; j--) {
      const frame = part.frames[j] as Frame;
      frames.push({ ...frame, text: take(frame.text) });
    }
    shown.push({ ...part, text, frames: frames.reverse() });
  }
  return { shown: shown.reverse(), cut: room <= 0 };
}

// packageAt finds the package that a file belongs to. Cython names its sources from the package on.
const packageAt = [/\/(?:site|dist)-packages\/([^/]+)/, /\/python3[^/]*\/([^/]+?)(?:\.py|\/)/, /^([\w.-]+)\/.*\.p(?:yx|xi|xd)$/];

// libraryOf names the library of folded frames, where they are of one.
function libraryOf(frames: readonly Frame[]): string {
  const names = new Set(frames.map((f) => packageAt.map((at) => at.exec(f.file)?.[1]).find(Boolean) ?? "").filter(Boolean));
  return names.size === 1 ? [...names][0] ?? "" : names.size ? "libraries" : "Python";
}

// lineIn is the last line of a run's own cell that the traceback names, for a mark beside it.
export function lineIn(error: { traceback: readonly string[]; frames?: readonly ErrorFrame[] }, run: string, cell: number | null): number | undefined {
  const all = parts(error.traceback, error.frames).flatMap((part) => part.frames);
  return all.findLast((f) => (f.run ? f.run === run : cell !== null && f.cell === cell))?.line;
}
