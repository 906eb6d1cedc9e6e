// The editors that are open, by cell: what is done from outside of a cell finds its editor here.

import type { CellEditor } from "./editor";

export const editors = new Map<string, CellEditor>();
