// Work on large text, done by a worker in the order in which it was asked for; on the page itself where there is no worker.

import type { Answer, Task, Work } from "./excerpt";

interface Asked { task: Task; resolve(result: unknown): void; reject(error: Error): void }

export class Aside {
  private worker: Worker | undefined;
  private broken = false;
  private readonly waiting: Asked[] = [];

  constructor(private readonly make: () => Worker) {}

  ask<T>(work: Work, text: string | Blob): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.waiting.push({ task: { work, text }, resolve: resolve as (result: unknown) => void, reject });
      if (this.waiting.length === 1) this.next();
    });
  }

  private next(): void {
    const asked = this.waiting[0];
    if (!asked) return;
    if (this.broken) {
      void import("./excerpt").then(async ({ attempt }) => this.take(await attempt(asked.task)));
      return;
    }
    if (!this.worker) {
      this.worker = this.make();
      this.worker.onmessage = ({ data }: MessageEvent<Answer>) => this.take(data);
      this.worker.onerror = () => {
        this.broken = true;
        this.next();
      };
    }
    this.worker.postMessage(asked.task);
  }

  private take(answer: Answer): void {
    const asked = this.waiting.shift();
    if (answer.ok) asked?.resolve(answer.result);
    else asked?.reject(new Error(answer.why));
    this.next();
  }
}
