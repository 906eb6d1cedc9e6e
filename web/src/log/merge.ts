// Three-way merge of documents: what I changed and what they changed since the base both stay. Where both changed the
// text of one cell, mine stays in its place and theirs comes in a cell of its own below, so that nobody's text is lost.

import type { Cell, Document } from "../proto/types";
import { newCell } from "./cells";

export interface Merged { doc: Document; conflicts: number }

const same = (a: Cell | undefined, b: Cell | undefined): boolean =>
  a === b || (a !== undefined && b !== undefined && a.source === b.source && a.cell_type === b.cell_type);

export function mergeDocuments(base: Document, mine: Document, theirs: Document): Merged {
  const was = byID(base);
  const my = byID(mine);
  const their = byID(theirs);
  let conflicts = 0;

  const merged = new Map<string, Cell[]>(); // by id: what stands there
  for (const id of new Set([...my.keys(), ...their.keys()])) {
    const [b, m, t] = [was.get(id), my.get(id), their.get(id)];
    if (m && t) {
      if (same(m, t) || same(t, b)) merged.set(id, [m]);
      else if (same(m, b)) merged.set(id, [t]);
      else {
        conflicts++;
        merged.set(id, [m, newCell(t.cell_type, t.source)]);
      }
    } else if (m && (!b || !same(m, b))) merged.set(id, [m]); // mine is new, or changed since they took it out
    else if (t && (!b || !same(t, b))) merged.set(id, [t]);
  }

  // Their order is the frame; what only I have goes behind its neighbour in my order. When they did not reorder, mine is.
  const orderOf = (doc: Document) => doc.cells.map((c) => c.id).filter((id) => was.has(id) && merged.has(id)).join("\n");
  const theyMoved = orderOf(theirs) !== orderOf({ ...base, cells: base.cells.filter((c) => their.has(c.id)) });
  const [frame, other] = theyMoved ? [theirs, mine] : [mine, theirs];
  const order = frame.cells.map((c) => c.id).filter((id) => merged.has(id));
  for (const [i, cell] of other.cells.entries()) {
    if (!merged.has(cell.id) || order.includes(cell.id)) continue;
    let at = 0;
    for (let j = i - 1; j >= 0 && at === 0; j--) at = order.indexOf(other.cells[j]?.id ?? "") + 1;
    order.splice(at, 0, cell.id);
  }

  return {
    doc: {
      revision: theirs.revision,
      title: mine.title !== base.title ? mine.title : theirs.title,
      through: Math.max(mine.through, theirs.through),
      imported: theirs.imported,
      cells: order.flatMap((id) => merged.get(id) ?? []),
    },
    conflicts,
  };
}

const byID = (doc: Document): Map<string, Cell> => new Map(doc.cells.map((cell) => [cell.id, cell]));

export const sameDocument = (a: Document, b: Document): boolean =>
  a.title === b.title && a.cells.length === b.cells.length &&
  a.cells.every((cell, i) => cell.id === b.cells[i]?.id && same(cell, b.cells[i]));
