// A long list that is drawn in parts, each when it has its turn.

import { later } from "./turns";

// Gradual says how many items of a list are drawn: the first ones at once, `step` more in each turn. Make it in a component.
export class Gradual {
  private allowed = $state(0);
  readonly drawn = $derived.by(() => Math.min(this.total(), this.allowed));

  constructor(private readonly total: () => number, step: number) {
    this.allowed = step;
    $effect.pre(() => {
      if (this.drawn < this.total()) return later(() => (this.allowed = this.drawn + step));
    });
  }
}
