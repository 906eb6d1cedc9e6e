// Outputs that the page has dropped, from the server's log.

import { concerns, mayBeUpdated, restored } from "../../log/bound";
import type { LogState, Output, Run } from "../../log/state";
import { getLines, sessionPath } from "../../proto/rest";
import { large } from "../../proto/socket";
import type { Event } from "../../proto/types";
import { aside } from "./aside";

// withOutputs is the state with a run's outputs. Where the run changes meanwhile, they are fetched again.
export async function withOutputs(session: string, id: string, now: () => LogState): Promise<LogState> {
  for (;;) {
    const run = now().runs.get(id);
    if (run?.dropped === undefined) return now();
    const events = await eventsOf(session, run);
    if (now().runs.get(id) === run) return restored(now(), id, events);
  }
}

export async function outputsOf(session: string, run: Run, now: () => LogState): Promise<readonly Output[]> {
  return run.dropped !== undefined ? (await withOutputs(session, run.id, now)).runs.get(run.id)?.outputs ?? [] : run.outputs;
}

async function eventsOf(session: string, run: Run): Promise<Event[]> {
  if (!run.scattered) {
    const own = await eventsAt(session, `/executions/${encodeURIComponent(run.id)}`, run);
    if (run.dropped || !mayBeUpdated(own)) return own; // of what the page never had it does not know who has updated it
  }
  // What others did to these outputs is in the session's log only.
  return eventsAt(session, `/events?follow=false&after=${run.queuedSeq - 1}`, run);
}

async function eventsAt(session: string, path: string, run: Run): Promise<Event[]> {
  const events: Event[] = [];
  for await (const line of getLines(sessionPath(session, path))) {
    const event = line.length > large ? await aside.ask<Event>("message", line) : JSON.parse(line) as Event;
    if (concerns(event, run.id)) events.push(event);
  }
  return events;
}
