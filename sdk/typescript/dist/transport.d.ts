import { TalariaError } from "./errors.js";
import type { TalariaEvent } from "./events.js";
export interface TalariaOptions {
    url: string;
    token: string;
    /** How many milliseconds a call keeps trying to reach a server that it has reached before; 60,000 by default. */
    outage?: number;
    /** The class that tools and approvals connect with; by default the platform's own (in Node since version 22). */
    WebSocket?: new (url: string, protocols: string[]) => any;
}
export interface Call {
    method: string;
    path: string;
    query?: Record<string, string>;
    body?: BodyInit;
    headers?: Record<string, string>;
    /** Whether it may be sent again if the connection is lost; by default, whether the method is idempotent. */
    repeatable?: boolean;
    signal?: AbortSignal;
}
/** Spaces the attempts to reconnect, and gives up after an outage without a successful one. */
export declare class Backoff {
    #private;
    readonly outage: number;
    constructor(outage: number);
    reset(): void;
    /** Resolves to whether to try again. */
    wait(signal?: AbortSignal): Promise<boolean>;
}
/** Makes requests. */
export declare class Transport {
    #private;
    readonly url: string;
    readonly outage: number;
    constructor(options: TalariaOptions);
    /** Begins to open a WebSocket. */
    socket(path: string): WebSocket;
    unreachable(cause: any): TalariaError;
    json(method: string, path: string, body?: unknown, extra?: Partial<Call>): Promise<any>;
    send(call: Call): Promise<Response>;
    /** Downloads a file. If the connection is lost, the stream continues with the rest. */
    download(path: string): Promise<ReadableStream<Uint8Array<ArrayBuffer>>>;
    /** Yields events, each once and in order, over one connection after the other. */
    events(request: (after: number) => Call, after: number, signal?: AbortSignal, follow?: boolean): AsyncGenerator<TalariaEvent, void, void>;
    /**
     * Sends JSON and yields the lines of the answer, over one connection after the other. The same request again gives the
     * lines from the first on: those that are not `fresh` are left out.
     */
    lines(path: string, body: unknown, fresh: (line: any) => boolean, signal?: AbortSignal): AsyncGenerator<any, void, void>;
}
/** Escapes a segment of a path. */
export declare const escape: (segment: string) => string;
/** A UUID; `crypto.randomUUID` is missing on pages without HTTPS. */
export declare function newId(): string;
export declare function remove(http: Transport, path: string, gone: string): Promise<void>;
export declare function pages(http: Transport, path: string, query: Record<string, string>): Promise<any[]>;
