// The cells of a long notebook in groups: the browser passes over a group that is out of sight as a whole. A cell stays in its
// group as long as it can, because in another one it is drawn again.

import type { Cell } from "../../proto/types";

const usual = 40; // cells of a group
const most = 80;

export interface Group { readonly key: number; readonly start: number; readonly cells: readonly Cell[] }

export class Groups {
  private groups: readonly Group[] = [];
  private places = new Map<string, number>(); // by cell: the place of its group
  private serial = 0;

  // of divides cells into groups. A group that did not change is the same object as before.
  of(cells: readonly Cell[]): readonly Group[] {
    const made: { key: number; start: number; cells: Cell[] }[] = [];
    let at = -1; // the place of the present group, or of the last one that was there before
    for (const [i, cell] of cells.entries()) {
      const last = made.at(-1);
      const begun = this.begun(cell, cells[i + 1], at);
      if (last && begun === undefined && !this.full(last.cells, cell, cells[i + 1], at)) {
        last.cells.push(cell);
        continue;
      }
      at = begun ?? at;
      made.push({ key: this.groups[begun ?? -1]?.key ?? ++this.serial, start: i, cells: [cell] });
    }
    const old = new Map(this.groups.map((group) => [group.key, group]));
    this.groups = made.map((group) => same(old.get(group.key), group));
    this.places = new Map(this.groups.flatMap((group, place) => group.cells.map((cell) => [cell.id, place] as const)));
    return this.groups;
  }

  // begun is the place of the group that a cell begins. A cell that was moved up begins none.
  private begun(cell: Cell, next: Cell | undefined, at: number): number | undefined {
    const own = this.places.get(cell.id);
    if (own === undefined || own <= at) return undefined;
    const following = this.places.get(next?.id ?? "");
    return at >= 0 && following !== undefined && following < own ? undefined : own;
  }

  private full(group: readonly Cell[], cell: Cell, next: Cell | undefined, at: number): boolean {
    const inside = this.places.has(cell.id) || this.places.get(next?.id ?? "") === at;
    return group.length >= (inside ? most : usual);
  }
}

const same = (old: Group | undefined, group: Group): Group =>
  old && old.start === group.start && old.cells.length === group.cells.length && old.cells.every((cell, i) => cell === group.cells[i]) ? old : group;
