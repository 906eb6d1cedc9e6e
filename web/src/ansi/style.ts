// Text styles as SGR sequences set them. Styles are interned: equal ones are the same object.

export interface Style {
  readonly fg?: Color;
  readonly bg?: Color;
  readonly bold?: true;
  readonly dim?: true;
  readonly italic?: true;
  readonly underline?: true;
  readonly strike?: true;
  readonly inverse?: true;
}

// A colour is one of the palette's 16, which follows the theme, or fixed as "#rrggbb".
export type Color = number | string;

const interned = new Map<string, Style>();
const maxInterned = 10_000; // then they are forgotten: a run that should have joined its neighbour stays one of its own

export const plain: Style = intern({});

export function intern(style: Style): Style {
  const { fg, bg, bold, dim, italic, underline, strike, inverse } = style;
  const key = `${fg ?? ""}|${bg ?? ""}|${+!!bold}${+!!dim}${+!!italic}${+!!underline}${+!!strike}${+!!inverse}`;
  const known = interned.get(key);
  if (known) return known;
  if (interned.size >= maxInterned) forget();
  interned.set(key, style);
  return style;
}

function forget(): void {
  interned.clear();
  intern(plain);
}

// sgr is the style after the parameters of one SGR sequence.
export function sgr(style: Style, params: readonly number[]): Style {
  let next: { -readonly [K in keyof Style]: Style[K] } = { ...style };
  for (let i = 0; i < params.length; i++) {
    const p = params[i] ?? 0;
    if (p === 0) next = {};
    else if (p === 1) next.bold = true;
    else if (p === 2) next.dim = true;
    else if (p === 3) next.italic = true;
    else if (p === 4) next.underline = true;
    else if (p === 7) next.inverse = true;
    else if (p === 9) next.strike = true;
    else if (p === 22) { delete next.bold; delete next.dim; }
    else if (p === 23) delete next.italic;
    else if (p === 24) delete next.underline;
    else if (p === 27) delete next.inverse;
    else if (p === 29) delete next.strike;
    else if (p >= 30 && p <= 37) next.fg = p - 30;
    else if (p >= 40 && p <= 47) next.bg = p - 40;
    else if (p >= 90 && p <= 97) next.fg = p - 82;
    else if (p >= 100 && p <= 107) next.bg = p - 92;
    else if (p === 39) delete next.fg;
    else if (p === 49) delete next.bg;
    else if (p === 38 || p === 48) {
      const [color, used] = extended(params, i + 1);
      i += used;
      if (color !== undefined) next[p === 38 ? "fg" : "bg"] = color;
    }
  }
  return intern(next);
}

// extended reads "5;n" or "2;r;g;b", and tells how many parameters that were.
function extended(params: readonly number[], at: number): [Color | undefined, number] {
  if (params[at] === 5) return [indexed(params[at + 1] ?? -1), 2];
  if (params[at] !== 2) return [undefined, 1];
  const rgb = params.slice(at + 1, at + 4);
  if (rgb.length < 3 || rgb.some((v) => v < 0 || v > 255)) return [undefined, 4];
  return [hex(rgb), 4];
}

const hex = (rgb: readonly number[]): string => `#${rgb.map((v) => v.toString(16).padStart(2, "0")).join("")}`;

// indexed is a colour of the 256: 16 of the palette, a cube of 6³, and 24 greys.
function indexed(n: number): Color | undefined {
  if (n < 0 || n > 255) return undefined;
  if (n < 16) return n;
  if (n >= 232) return hex([0, 0, 0].map(() => 8 + (n - 232) * 10));
  const level = (v: number) => (v === 0 ? 0 : 55 + v * 40);
  return hex([Math.floor((n - 16) / 36), Math.floor((n - 16) / 6) % 6, (n - 16) % 6].map(level));
}
