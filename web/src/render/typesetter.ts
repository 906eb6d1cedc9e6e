// Asks the worker for prose, one text at a time, and gives up on what takes too long.

import type { Prose } from "./prose";
import type { Answer, Task } from "./worker";

export const maxText = 256 << 10; // characters; longer Markdown and formulas are shown as text
const patience = 2000; // ms, from when the worker has all it needs

interface Asked { task: Task; resolve(prose: Prose | undefined): void }

export class Typesetter {
  private worker: Worker | undefined;
  private serial = 0;
  private readonly waiting: Asked[] = [];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly make: () => Worker) {}

  // prose is undefined for what took too long, or is more than the page can draw.
  prose(kind: Task["kind"], text: string, display = true): Promise<Prose | undefined> {
    if (text.length > maxText) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.waiting.push({ task: { id: ++this.serial, kind, text, display }, resolve });
      if (this.waiting.length === 1) this.next();
    });
  }

  private next(): void {
    const asked = this.waiting[0];
    if (!asked) return;
    if (!this.worker) {
      this.worker = this.make();
      this.worker.onmessage = ({ data }: MessageEvent<Answer>) => this.take(data);
      this.worker.onerror = () => this.stop();
    }
    this.worker.postMessage(asked.task);
  }

  private take(answer: Answer): void {
    if (answer.id !== this.waiting[0]?.task.id) return;
    if (answer.begun) this.timer = setTimeout(() => this.stop(), patience);
    else this.finish(answer.prose);
  }

  // stop ends a worker that does not answer, with the memory that it has taken.
  private stop(): void {
    this.worker?.terminate();
    this.worker = undefined;
    this.finish(undefined);
  }

  private finish(prose: Prose | undefined): void {
    clearTimeout(this.timer);
    this.waiting.shift()?.resolve(prose);
    this.next();
  }
}
