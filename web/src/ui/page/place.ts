// Where a person was in a notebook, kept for this tab: a page that is loaded again goes on there. Otherwise the letters that they go
// on typing would be commands.

export interface Place { cell: string; mode: "command" | "edit"; caret: number }

const key = (session: string): string => `talaria.place.${session}`;

export function keepPlace(session: string, place: Place): void {
  try {
    sessionStorage.setItem(key(session), JSON.stringify(place));
  } catch { /* it does not fit */ }
}

export function placeIn(session: string): Place | undefined {
  try {
    return (JSON.parse(sessionStorage.getItem(key(session)) ?? "null") as Place | null) ?? undefined;
  } catch {
    return undefined;
  }
}
