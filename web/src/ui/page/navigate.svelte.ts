// Which session the address names; "" is the list of sessions.

const fromAddress = () => new URLSearchParams(location.search).get("session") ?? "";

class Place {
  session = $state(fromAddress());

  constructor() {
    addEventListener("popstate", () => (this.session = fromAddress()));
  }
}

export const place = new Place();

export const addressOf = (session: string): string => (session ? `/?session=${encodeURIComponent(session)}` : "/");

export function go(session: string): void {
  history.pushState(null, "", addressOf(session));
  place.session = session;
}

// follow makes a link of this page stay in it, unless it is to open elsewhere.
export function follow(event: MouseEvent, session: string): void {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(session);
}
