// Events on their way into the state: taken in for a moment at a time, so that a flood of them does not hold up drawing.

import type { Event } from "../proto/types";
import { reduceAll } from "./reduce";
import type { LogState } from "./state";

const sliceMs = 8;
const batchEvents = 200;
const batchSize = 1 << 18; // characters of text, about

export class Intake {
  private waiting: Event[] = [];
  private scheduled = false;

  // frame calls back when it is time to draw; take is given the new state and the events that made it.
  constructor(private readonly frame: (work: () => void) => void, private readonly state: () => LogState,
    private readonly take: (state: LogState, events: readonly Event[]) => void) {}

  // seq is the last one that came, taken in or not.
  get seq(): number {
    return this.waiting.at(-1)?.seq ?? this.state().seq;
  }

  add(event: Event): void {
    this.waiting.push(event);
    this.schedule();
  }

  forget(): void {
    this.waiting = [];
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    this.frame(() => {
      this.scheduled = false;
      this.flush();
    });
  }

  private flush(): void {
    const end = performance.now() + sliceMs;
    let state = this.state();
    let taken = 0;
    while (taken < this.waiting.length && (taken === 0 || performance.now() < end)) {
      let size = 0;
      let next = taken;
      while (next < this.waiting.length && next - taken < batchEvents && size < batchSize) {
        const event = this.waiting[next++];
        size += event?.type === "stream" ? event.text.length : 100;
      }
      state = reduceAll(state, this.waiting.slice(taken, next));
      taken = next;
    }
    const events = this.waiting.slice(0, taken);
    this.waiting = this.waiting.slice(taken);
    this.take(state, events);
    if (this.waiting.length) this.schedule();
  }
}
