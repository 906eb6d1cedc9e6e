import { escape, pages, remove, type Transport } from "./transport.js";

export interface FileEntry {
  name: string;
  path: string;
  kind: "file" | "directory" | "symlink" | "other";
  size: number;
  modified_at: string;
  media_type?: string;
}

/** The files of a session. Paths are relative to its workspace. */
export class Files {
  #http: Transport;
  constructor(http: Transport, private readonly base: string) { this.#http = http; }

  #path(name: string): string { return this.base + "/" + name.split("/").map(escape).join("/"); }

  /** Lists one folder by name. */
  list(folder = ""): Promise<FileEntry[]> { return pages(this.#http, this.base, folder ? { path: folder } : {}); }

  /** Downloads a file. A lost download is resumed; if the file changes meanwhile, it fails with `file_changed`. */
  async read(name: string): Promise<Uint8Array<ArrayBuffer>> {
    return new Uint8Array(await new Response(await this.stream(name)).arrayBuffer());
  }

  /** Downloads a file piece by piece; see `read`. */
  stream(name: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> { return this.#http.download(this.#path(name)); }

  /** Uploads a file in one step, with its folders. A stream works in Node and in Chromium over HTTP/2. */
  async write(name: string, data: string | Uint8Array<ArrayBuffer> | Blob | ReadableStream): Promise<FileEntry> {
    const response = await this.#http.send({
      method: "PUT", path: this.#path(name), body: data, repeatable: !(data instanceof ReadableStream),
      headers: { "Content-Type": "application/octet-stream" },
    });
    return response.json();
  }

  /** Deletes a file, a link itself, or a folder with everything in it. It is not an error if it no longer exists. */
  delete(name: string): Promise<void> { return remove(this.#http, this.#path(name), "file_not_found"); }
}
