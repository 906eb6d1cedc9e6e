// The page's types of the wire are checked against the API's list: the golden files, and the types made from them. What the
// API drops or renames does not compile here.

import { expect, test } from "vitest";
import type { RawExecution, TalariaEvent } from "../../sdk/typescript/src/events";
import type session from "../../api/testdata/session.json";
import type { Event, Execution, Session } from "../src/proto/types";

type Of<E extends { type: string }, T extends string> = E extends unknown ? (T extends E["type"] ? E : never) : never;
type Keys<T> = T extends unknown ? keyof T : never;
type Extra = "cut"; // the page's own: what its worker says of a large display
type Unseen = "reason"; // which the golden files have no occasion for

// Unknown is what the page reads and the API does not have.
type UnknownTypes = Exclude<Event["type"], TalariaEvent["type"]>;
type UnknownFields = { [T in Event["type"]]: Exclude<Keys<Of<Event, T>>, Keys<Of<TalariaEvent, T>> | Extra> }[Event["type"]];
type UnknownOfSession = Exclude<keyof Session, keyof typeof session | Unseen>;
type UnknownOfExecution = Exclude<keyof Execution, keyof RawExecution>;

const none: [UnknownTypes, UnknownFields, UnknownOfSession, UnknownOfExecution] extends [never, never, never, never] ? true : never = true;

test("the page reads events that the API has, with the fields that it has", () => expect(none).toBe(true));
