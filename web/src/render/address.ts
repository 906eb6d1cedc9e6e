// httpAddress is the address of a link that a page may be asked to open, "" where it is none.
export function httpAddress(address: string): string {
  try {
    const url = new URL(address);
    return /^https?:$/.test(url.protocol) && address.length < 4096 ? url.href : "";
  } catch {
    return "";
  }
}
