// The HTTP API, as far as the page uses it. Every failure is a Refused with a sentence for people.

import type { Checkpoint, CheckpointDiff, Document, FileEntry, Page, Problem, RollbackPart, Session } from "./types";

export class Refused extends Error {
  constructor(readonly status: number, readonly code: string, detail: string) {
    super(detail);
  }
}

export const sessionPath = (id: string, rest = ""): string => `/v1/sessions/${encodeURIComponent(id)}${rest}`;

export const filePath = (id: string, path: string): string =>
  sessionPath(id, `/files/${path.split("/").map(encodeURIComponent).join("/")}`);

export async function refusal(answer: Response): Promise<Refused> {
  try {
    const problem = (await answer.json()) as Problem;
    return new Refused(answer.status, problem.code, problem.detail);
  } catch {
    return new Refused(answer.status, "", `The server answered ${answer.status} ${answer.statusText}.`);
  }
}

async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      body: body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "unreachable", "The server cannot be reached. Nothing is lost; try again in a moment.");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

export async function call<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
  const answer = await send(method, path, body, headers);
  return (answer.status === 204 ? undefined : await answer.json()) as T;
}

export const getText = async (path: string): Promise<string> => (await send("GET", path)).text();

// getLines streams the lines of NDJSON.
export async function* getLines(path: string): AsyncGenerator<string> {
  const answer = await send("GET", path, undefined, { Accept: "application/x-ndjson" });
  const reader = answer.body?.pipeThrough(new TextDecoderStream()).getReader();
  let parts: string[] = []; // of a line of which only the start has come
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    const pieces = read.value.split("\n");
    const rest = pieces.pop() ?? "";
    for (const piece of pieces) {
      yield parts.join("") + piece;
      parts = [];
    }
    parts.push(rest);
  }
}

// listSessions is a page of the sessions that have a text in their name or id, newest first.
export const listSessions = (search: string, cursor: string): Promise<Page<Session>> =>
  call("GET", `/v1/sessions?${new URLSearchParams({ limit: "50", ...(search ? { search } : {}), ...(cursor ? { cursor } : {}) })}`);

export const listFiles = async (id: string, folder: string): Promise<FileEntry[]> =>
  (await call<{ items: FileEntry[] }>("GET", sessionPath(id, `/files${folder ? `?path=${encodeURIComponent(folder)}` : ""}`))).items;

const checkpointPath = (id: string, checkpoint: string, rest = ""): string =>
  sessionPath(id, `/checkpoints/${encodeURIComponent(checkpoint)}${rest}`);

// listCheckpoints is all of a session's checkpoints, newest first.
export const listCheckpoints = async (id: string): Promise<Checkpoint[]> =>
  (await call<{ items: Checkpoint[] }>("GET", sessionPath(id, "/checkpoints"))).items;

export const makeCheckpoint = (id: string, name: string): Promise<Checkpoint> =>
  call("POST", sessionPath(id, "/checkpoints"), name ? { name } : {});

export const getCheckpoint = (id: string, checkpoint: string): Promise<Checkpoint> => call("GET", checkpointPath(id, checkpoint));

export const dropCheckpoint = (id: string, checkpoint: string): Promise<void> => call("DELETE", checkpointPath(id, checkpoint));

// diffCheckpoint is what changed from a checkpoint until now.
export const diffCheckpoint = (id: string, checkpoint: string): Promise<CheckpointDiff> => call("GET", checkpointPath(id, checkpoint, "/diff"));

export const rollBack = (id: string, checkpoint: string, what: RollbackPart, keepEdits = false): Promise<void> =>
  call("POST", sessionPath(id, "/rollback"), { checkpoint_id: checkpoint, what, keep_user_edits: keepEdits });

export const getDocument = (id: string): Promise<Document> => call("GET", sessionPath(id, "/document"));

export const putDocument = (id: string, doc: Document): Promise<Document> => {
  const { title, through, cells } = doc;
  return call("PUT", sessionPath(id, "/document"), { title, through, cells }, { "If-Match": `"${doc.revision}"` });
};

// upload sends one file and tells how far it is, from 0 to 1. fetch cannot tell that.
export function upload(id: string, path: string, file: Blob, progress: (part: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", filePath(id, path));
    request.upload.onprogress = (e) => progress(e.total ? e.loaded / e.total : 0);
    request.onerror = () => reject(new Refused(0, "unreachable", `The upload of ${path} was cut off; the server cannot be reached.`));
    request.onload = () => {
      if (request.status < 300) return resolve();
      let problem: Partial<Problem> = {};
      try {
        problem = JSON.parse(request.responseText) as Problem;
      } catch { /* no problem document: the status has to do */ }
      reject(new Refused(request.status, problem.code ?? "", problem.detail ?? `The upload of ${path} was refused (${request.status}).`));
    };
    request.send(file);
  });
}
