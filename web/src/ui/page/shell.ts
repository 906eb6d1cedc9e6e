// One terminal as xterm.js draws it. What a shell shows is not trusted: of its escape sequences only those act that
// change its own picture and its title. The clipboard (OSC 52) is out of its reach.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type ITheme } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { nonce } from "./meta";

export interface ShellIO {
  type(text: string): void;
  resized(rows: number, cols: number): void;
  title(title: string): void;
  link(address: string): void; // wants to be opened
  leave(): void;
  copied(): void;
  touched(): void; // a person uses it
}

const fontSize = 13;
const font = '"JetBrains Mono", ui-monospace, "DejaVu Sans Mono", monospace';

// A program asks its terminal what it is and where its cursor stands; the terminal types the answer.
const questions = { csi: [{ final: "c" }, { prefix: ">", final: "c" }, { prefix: "=", final: "c" }, { final: "n" }, { prefix: "?", final: "n" },
  { prefix: "?", intermediates: "$", final: "p" }, { intermediates: "$", final: "p" }, { final: "t" }], osc: [4, 10, 11, 12] };

export class Shell {
  readonly term: Terminal;
  readonly element = document.createElement("div");
  control = false; // the next letter is typed with Ctrl: a phone's keyboard has none
  private readonly fit = new FitAddon();
  private readonly watch = new ResizeObserver(() => this.refit());

  // answers tells whether questions of programs are to be answered: not those of the past, that a reload shows again.
  constructor(private readonly io: ShellIO, dark: boolean, reader: boolean, answers: () => boolean) {
    this.element.className = "shell";
    this.term = new Terminal({
      fontFamily: font, fontSize, lineHeight: 1.3, letterSpacing: 0, scrollback: 5000, cursorBlink: false, minimumContrastRatio: 4.5,
      theme: theme(dark), screenReaderMode: reader, macOptionIsMeta: true,
      linkHandler: { activate: (_event, address) => io.link(address), allowNonHttpProtocols: false },
    });
    this.term.loadAddon(this.fit);
    this.term.onData((text) => io.type(this.withControl(text)));
    this.term.onBinary((text) => io.type(text));
    this.term.onTitleChange((title) => io.title(title));
    this.term.onResize(({ rows, cols }) => io.resized(rows, cols));
    this.term.attachCustomKeyEventHandler((event) => this.key(event));
    for (const id of questions.csi) this.term.parser.registerCsiHandler(id, () => !answers());
    this.term.parser.registerDcsHandler({ intermediates: "$", final: "q" }, () => !answers());
    for (const id of questions.osc) this.term.parser.registerOscHandler(id, (data) => data.includes("?") && !answers());
  }

  // show puts the terminal into the page, and makes it as large as its place.
  async show(place: HTMLElement): Promise<void> {
    await document.fonts.load(`${fontSize}px "JetBrains Mono"`).catch(() => {}); // or the widths are those of another font
    place.replaceChildren(this.element);
    if (!this.term.element) {
      withNonce(() => this.term.open(this.element));
      this.term.textarea?.setAttribute("aria-label", "Terminal. All keys go to the shell; Control Shift L leaves it.");
      this.element.addEventListener("paste", (event) => this.paste(event), { capture: true });
      for (const kind of ["keydown", "pointerdown", "paste"]) this.element.addEventListener(kind, () => this.io.touched(), { capture: true });
      this.watch.observe(this.element);
    }
    this.refit();
  }

  write(bytes: Uint8Array, drawn: () => void): void {
    this.term.write(bytes, drawn);
  }

  // note is a line of the page's own. What was left out may have been in the middle of a sequence: that ends here.
  note(text: string): void {
    this.term.write(`\u0018\u001b\\\u001b[0m\r\n\u001b[2m[${text}]\u001b[0m\r\n`);
  }

  focus(): void {
    this.term.focus();
  }

  look(dark: boolean, reader: boolean): void {
    this.term.options.theme = theme(dark);
    this.term.options.screenReaderMode = reader;
  }

  pasteText(text: string): void {
    this.term.paste(clean(text));
  }

  async copy(): Promise<void> {
    const text = this.term.getSelection();
    if (!text) return;
    await navigator.clipboard.writeText(text);
    this.io.copied();
  }

  dispose(): void {
    this.watch.disconnect();
    this.term.dispose();
    this.element.remove();
  }

  private refit(): void {
    if (this.element.offsetWidth > 0) this.fit.fit();
  }

  // key is false for those that are the page's. Ctrl+Shift+L leaves: all others, Tab and Escape too, are the shell's.
  private key(event: KeyboardEvent): boolean {
    if (event.type !== "keydown" || !event.shiftKey || event.altKey || !(event.ctrlKey || event.metaKey)) return true;
    const letter = event.key.toLowerCase();
    if (letter === "l" && event.ctrlKey) this.io.leave();
    else if (letter === "c" && event.ctrlKey) void this.copy().catch(() => {});
    else return true;
    event.preventDefault();
    event.stopPropagation();
    return false;
  }

  private withControl(text: string): string {
    if (!this.control || text.length !== 1) return text;
    this.control = false;
    return String.fromCharCode(text.toUpperCase().charCodeAt(0) & 0x1f);
  }

  private paste(event: ClipboardEvent): void {
    event.preventDefault();
    event.stopPropagation();
    this.pasteText(event.clipboardData?.getData("text/plain") ?? "");
  }
}

// clean is text without control characters: what is pasted cannot end the brackets around it, and run at once.
const clean = (text: string): string => text.replaceAll(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g, "");

// withNonce lets styles that are made meanwhile pass the page's policy, which xterm.js knows nothing of.
function withNonce(work: () => void): void {
  const create = document.createElement;
  document.createElement = function (this: Document, name: string, options?: ElementCreationOptions) {
    const element = create.call(this, name, options);
    if (name === "style" && nonce) element.nonce = nonce;
    return element;
  } as typeof document.createElement;
  try {
    work();
  } finally {
    document.createElement = create;
  }
}

const names = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "brightBlack", "brightRed", "brightGreen",
  "brightYellow", "brightBlue", "brightMagenta", "brightCyan", "brightWhite"] as const;

function theme(dark: boolean): ITheme {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const colours: ITheme = {
    background: token("raised"), foreground: token("ink"), cursor: token("accent"), cursorAccent: token("raised"),
    selectionBackground: token("selection"),
  };
  for (const [i, name] of names.entries()) colours[name] = token(`ansi-${i}`);
  // Programs paint with black and white as grounds, so these are what they are called here.
  [colours.black, colours.brightWhite] = dark ? [token("paper"), token("ink")] : [token("ink"), token("paper")];
  return colours;
}
