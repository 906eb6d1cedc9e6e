// The server's time. The log's times are the server's, and the clock of the device with the browser may be minutes off.

const inexact = 2000; // ms: the server tells whole seconds, and a later one where it is busy
let ahead = 0; // ms

export const serverNow = (): number => Date.now() + ahead;

// setClock asks the server what time it is. Where it cannot be asked, the clock stays as it is.
export async function setClock(): Promise<void> {
  try {
    const asked = Date.now();
    const { headers } = await fetch("/healthz", { cache: "no-store" });
    const told = Date.parse(headers.get("Date") ?? "");
    const taken = Date.now() - asked;
    const offset = told - (asked + taken / 2);
    if (Number.isFinite(offset)) ahead = Math.abs(offset) > inexact + taken ? offset : 0;
  } catch {
    // The socket says that there is no connection.
  }
}
