// The notebook as a Python script: cells behind "# %%", text as comments. Editors that know these marks read it back.

import type { Cell } from "../proto/types";

export function toScript(title: string, cells: readonly Cell[]): string {
  const parts = [`# ${title.replaceAll("\n", " ")}`];
  for (const cell of cells) {
    if (cell.cell_type === "code") parts.push(`# %%\n${cell.source}`.trimEnd());
    else parts.push(`# %% [${cell.cell_type}]\n${cell.source.split("\n").map((line) => `# ${line}`.trimEnd()).join("\n")}`);
  }
  return `${parts.join("\n\n")}\n`;
}
