// The worker that works on large text; aside.ts asks it.

import { attempt, type Task } from "./excerpt";

self.onmessage = ({ data }: MessageEvent<Task>) => self.postMessage(attempt(data));
