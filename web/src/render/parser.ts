// The worker that works on large text; aside.ts asks it.

import { attempt, type Task } from "./excerpt";

self.onmessage = async ({ data }: MessageEvent<Task>) => self.postMessage(await attempt(data));
