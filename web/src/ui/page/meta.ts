// What the server wrote into the page for this visit.

const meta = (name: string): string => document.querySelector<HTMLMetaElement>(`meta[name="talaria-${name}"]`)?.content ?? "";

export const nonce = meta("nonce").replace("%%NONCE%%", "");

// sharedSession is the session that a read-only link shows; "" for who has a token of their own.
export const sharedSession = meta("share").replace("%%SHARE%%", "");

export const mac = /Mac|iPhone|iPad/.test(navigator.platform);
