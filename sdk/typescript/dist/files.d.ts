import { type Transport } from "./transport.js";
export interface FileEntry {
    name: string;
    path: string;
    kind: "file" | "directory" | "symlink" | "other";
    size: number;
    modified_at: string;
    media_type?: string;
}
/** The files of a session. Paths are relative to its workspace. */
export declare class Files {
    #private;
    private readonly base;
    constructor(http: Transport, base: string);
    /** Lists one folder by name. */
    list(folder?: string): Promise<FileEntry[]>;
    /** Downloads a file. A lost download is resumed; if the file changes meanwhile, it fails with `file_changed`. */
    read(name: string): Promise<Uint8Array<ArrayBuffer>>;
    /** Downloads a file piece by piece; see `read`. */
    stream(name: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
    /** Uploads a file in one step, with its folders. A stream works in Node and in Chromium over HTTP/2. */
    write(name: string, data: string | Uint8Array<ArrayBuffer> | Blob | ReadableStream): Promise<FileEntry>;
    /** Deletes a file, a link itself, or a folder with everything in it. It is not an error if it no longer exists. */
    delete(name: string): Promise<void>;
}
