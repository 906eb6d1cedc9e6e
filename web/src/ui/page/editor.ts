// The editor of a cell: CodeMirror 6 with Python or Markdown, completion and inspection from the live kernel.

import { acceptCompletion, autocompletion, closeCompletion, moveCompletionSelection, closeBrackets, closeBracketsKeymap, completeAnyWord, completionKeymap, completionStatus, snippetCompletion, startCompletion, type CompletionContext, type CompletionResult, type CompletionSource } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { highlightSelectionMatches, openSearchPanel, search, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Prec, StateEffect, StateField, type Extension } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, keymap, lineNumbers, placeholder, showTooltip, type DecorationSet, type Tooltip } from "@codemirror/view";
import { classHighlighter } from "@lezer/highlight";
import { settled } from "../../ansi/screen";
import type { Completion, Inspection } from "../../proto/types";
import { nonce } from "./meta";

export interface EditorIO {
  changed(source: string): void;
  focused(): void;
  leave(by: -1 | 0 | 1): void; // Escape, or an arrow key past the first or last line
  complete(code: string, cursor: number): Promise<Completion>;
  inspect(code: string, cursor: number): Promise<Inspection>;
  say(text: string): void;
}

export interface EditorLook { kind: "code" | "markdown" | "raw"; numbers: boolean; label: string; readOnly: boolean; hint: string; active: boolean }

const fromOutside = StateEffect.define<null>();
const setTip = StateEffect.define<Tooltip | null>();
const setErrorLine = StateEffect.define<number>();

const tipField = StateField.define<Tooltip | null>({
  create: () => null,
  update(tip, tr) {
    for (const effect of tr.effects) if (effect.is(setTip)) return effect.value;
    return tr.docChanged || tr.selection ? null : tip;
  },
  provide: (field) => showTooltip.from(field),
});

const errorField = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(marks, tr) {
    for (const effect of tr.effects) {
      if (!effect.is(setErrorLine)) continue;
      if (effect.value < 1 || effect.value > tr.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "cm-error-line" }).range(tr.state.doc.line(effect.value).from)]);
    }
    return tr.docChanged ? Decoration.none : marks;
  },
  provide: (field) => EditorView.decorations.from(field),
});

// codePoints is an offset in UTF-16 units as the kernel counts: in code points.
const codePoints = (text: string, units: number): number => [...text.slice(0, units)].length;

function unitsOf(text: string, points: number): number {
  let units = 0;
  for (const char of text) {
    if (points-- <= 0) break;
    units += char.length;
  }
  return units;
}

// fromKernel asks the kernel; while it cannot answer, the words of the cell have to do.
function fromKernel(io: EditorIO) {
  return async (context: CompletionContext): Promise<CompletionResult | null> => {
    const before = context.matchBefore(/[\w.\]["'/)]+$/);
    if (!context.explicit && !(before && /[\w.]$/.test(before.text))) return null;
    const code = context.state.doc.toString();
    try {
      const found = await io.complete(code, codePoints(code, context.pos));
      if (context.aborted || !context.view?.hasFocus || !found.matches.length) return null;
      const from = unitsOf(code, found.cursor_start);
      const to = unitsOf(code, found.cursor_end);
      return {
        from, to: to === context.pos ? undefined : to,
        options: found.matches.slice(0, 500).map((label) => ({ label, type: label.endsWith("=") ? "property" : label.endsWith("(") ? "function" : undefined })),
        validFor: /^[\w.]*$/,
      };
    } catch {
      return context.aborted || !context.view?.hasFocus ? null : completeAnyWord(context);
    }
  };
}

const snippets = [
  snippetCompletion("import numpy as np", { label: "import numpy as np", detail: "line" }),
  snippetCompletion("import pandas as pd", { label: "import pandas as pd", detail: "line" }),
  snippetCompletion("import matplotlib.pyplot as plt", { label: "import matplotlib.pyplot as plt", detail: "line" }),
];

const importLines = (context: CompletionContext): CompletionResult | null => {
  const line = context.matchBefore(/^imp\w*( \w*)?/);
  return line ? { from: line.from, options: snippets } : null;
};

function tab(view: EditorView): boolean {
  if (view.state.readOnly) return false; // and the browser moves on
  if (completionStatus(view.state) === "active") {
    if (!acceptCompletion(view) && moveCompletionSelection(true)(view)) acceptCompletion(view); // none is chosen: the first
    return true;
  }
  const { from, to } = view.state.selection.main;
  const line = view.state.doc.lineAt(from);
  if (from !== to || /^\s*$/.test(line.text.slice(0, from - line.from))) return indentMore(view);
  return startCompletion(view);
}

function shiftTab(io: EditorIO) {
  return (view: EditorView): boolean => {
    if (view.state.readOnly) return false;
    const { from, to } = view.state.selection.main;
    const line = view.state.doc.lineAt(from);
    if (from !== to || /^\s*$/.test(line.text.slice(0, from - line.from))) return indentLess(view);
    void showInspection(view, io);
    return true;
  };
}

async function showInspection(view: EditorView, io: EditorIO): Promise<void> {
  const pos = view.state.selection.main.head;
  const code = view.state.doc.toString();
  try {
    const { found, data } = await io.inspect(code, codePoints(code, pos));
    const text = settled(typeof data["text/plain"] === "string" ? data["text/plain"] : "").trim();
    if (!found || !text) return io.say("Nothing is known about the name at the cursor.");
    view.dispatch({
      effects: setTip.of({
        pos, above: true,
        create: () => {
          const dom = document.createElement("div");
          dom.className = "inspection";
          dom.setAttribute("role", "note");
          dom.textContent = text.slice(0, 20_000);
          return { dom };
        },
      }),
    });
  } catch (err) {
    io.say(err instanceof Error ? err.message : String(err));
  }
}

// What CodeMirror binds itself, without keys that run cells or are the page's.
const editingKeys = defaultKeymap
  .filter((b) => b.key !== "Mod-Enter" && b.key !== "Shift-Mod-k")
  .map((b) => (b.key === "Enter" ? { key: b.key, run: b.run } : b));

const edge = (view: EditorView, by: -1 | 1): boolean => {
  const { main } = view.state.selection;
  if (!main.empty || completionStatus(view.state)) return false;
  const line = view.state.doc.lineAt(main.head);
  return by < 0 ? line.number === 1 : line.number === view.state.doc.lines;
};

export class CellEditor {
  readonly view: EditorView;
  private readonly look = new Compartment();
  private shown: EditorLook;
  private errorLine = 0;
  private markdown: Extension = []; // loaded with the first text that is edited
  private asked = false;
  private destroyed = false;

  constructor(parent: HTMLElement, source: string, look: EditorLook, private readonly io: EditorIO) {
    this.shown = look;
    const keys = Prec.high(keymap.of([
      { key: "Tab", run: tab },
      { key: "Shift-Tab", run: shiftTab(io) },
      { key: "Escape", run: (view) => this.escape(view) },
      { key: "ArrowUp", run: (view) => edge(view, -1) && (io.leave(-1), true) },
      { key: "ArrowDown", run: (view) => edge(view, 1) && (io.leave(1), true) },
    ]));
    this.view = new EditorView({
      parent,
      state: EditorState.create({
        doc: source,
        extensions: [
          nonce ? EditorView.cspNonce.of(nonce) : [],
          keys,
          history(),
          drawSelection(),
          indentOnInput(),
          indentUnit.of("    "),
          EditorState.tabSize.of(4),
          bracketMatching(),
          closeBrackets(),
          highlightSelectionMatches({ minSelectionLength: 2 }),
          search({ top: true }),
          syntaxHighlighting(classHighlighter),
          EditorView.lineWrapping,
          tipField,
          errorField,
          // Always there: taking it out while it waits for an answer would leave it without its state.
          autocompletion({
            override: [this.whereCode(fromKernel(io)), this.whereCode(importLines)],
            icons: false, activateOnTypingDelay: 250, selectOnOpen: false, interactionDelay: 0,
          }),
          keymap.of([...closeBracketsKeymap, ...completionKeymap, ...historyKeymap, ...searchKeymap, ...editingKeys]),
          this.look.of(this.extensions(look)),
          EditorView.domEventHandlers({ blur: () => this.quiet() }),
          EditorView.updateListener.of((update) => {
            if (update.focusChanged && update.view.hasFocus) io.focused();
            if (update.docChanged && !update.transactions.some((tr) => tr.effects.some((e) => e.is(fromOutside)))) {
              io.changed(update.state.doc.toString());
            }
          }),
        ],
      }),
    });
    this.loadMarkdown(look);
  }

  private whereCode(source: CompletionSource): CompletionSource {
    return (context) => (this.shown.kind === "code" ? source(context) : null);
  }

  private extensions(look: EditorLook): Extension {
    return [
      look.kind === "code" ? python() : [],
      look.kind === "markdown" ? this.markdown : [],
      look.numbers && look.kind === "code" ? lineNumbers() : [],
      look.hint ? placeholder(look.hint) : [],
      EditorState.readOnly.of(look.readOnly),
      EditorView.editable.of(!look.readOnly),
      EditorView.contentAttributes.of({
        "aria-label": look.label, spellcheck: String(look.kind === "markdown"), autocapitalize: look.kind === "markdown" ? "sentences" : "off",
        "aria-description": look.readOnly ? "Read-only" : "Escape leaves the editor, Shift+Enter runs",
        tabindex: look.readOnly || look.active ? "0" : "-1", // Tab goes past an editor that nobody types in
      }),
    ];
  }

  setLook(look: EditorLook): void {
    if (look === this.shown) return;
    this.shown = look;
    this.loadMarkdown(look);
    this.view.dispatch({ effects: this.look.reconfigure(this.extensions(look)) });
  }

  // loadMarkdown loads what Markdown needs, once there is some.
  private loadMarkdown(look: EditorLook): void {
    if (look.kind !== "markdown" || this.asked) return;
    this.asked = true;
    void import("@codemirror/lang-markdown").then(({ markdown }) => {
      this.markdown = markdown();
      if (!this.destroyed) this.view.dispatch({ effects: this.look.reconfigure(this.extensions(this.shown)) });
    });
  }

  // setSource takes a text that came from elsewhere: only what differs is changed, so that the cursor stays.
  setSource(source: string): void {
    const now = this.view.state.doc.toString();
    if (now === source) return;
    let start = 0;
    while (start < now.length && start < source.length && now[start] === source[start]) start++;
    let end = 0;
    while (end < now.length - start && end < source.length - start && now[now.length - 1 - end] === source[source.length - 1 - end]) end++;
    this.view.dispatch({
      changes: { from: start, to: now.length - end, insert: source.slice(start, source.length - end) },
      effects: fromOutside.of(null),
    });
  }

  markError(line: number | undefined): void {
    if (!line && !this.errorLine) return;
    this.errorLine = line ?? 0;
    this.view.dispatch({ effects: setErrorLine.of(this.errorLine) });
  }

  goToLine(line: number): void {
    const at = this.view.state.doc.line(Math.max(1, Math.min(line, this.view.state.doc.lines)));
    this.view.focus();
    this.view.dispatch({ selection: { anchor: at.from }, scrollIntoView: true });
  }

  insert(text: string): void {
    this.view.focus();
    this.view.dispatch(this.view.state.replaceSelection(text), { userEvent: "input.type", scrollIntoView: true });
  }

  find(): void {
    this.view.focus();
    openSearchPanel(this.view);
  }

  // quiet closes the list of completions, and calls off one that is on its way.
  quiet(): void {
    if (!this.destroyed) closeCompletion(this.view);
  }

  cursor(): number {
    return this.view.state.selection.main.head;
  }

  moveTo(cursor: number): void {
    this.view.dispatch({ selection: { anchor: Math.min(cursor, this.view.state.doc.length) } });
  }

  focus(at?: "start" | "end"): void {
    this.view.focus();
    if (at) this.view.dispatch({ selection: { anchor: at === "start" ? 0 : this.view.state.doc.length } });
  }

  destroy(): void {
    this.destroyed = true;
    this.view.destroy();
  }

  private escape(view: EditorView): boolean {
    if (completionStatus(view.state)) return false; // closes the list first
    if (view.state.field(tipField)) {
      view.dispatch({ effects: setTip.of(null) });
      return true;
    }
    this.io.leave(0);
    return true;
  }
}
