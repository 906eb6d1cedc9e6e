// What is typed while a notebook opens: its editor takes it over, so that a fast typist loses no letter.

let typed = "";

// typeAhead keeps the text of a key, and reports whether it has any.
export function typeAhead(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return false;
  if (event.key === "Backspace") typed = typed.slice(0, -1);
  else if (event.key === "Enter" && !event.shiftKey) typed += "\n";
  else if (event.key.length === 1) typed += event.key;
  else return false;
  return true;
}

// takeTyped returns what was typed, and forgets it.
export function takeTyped(): string {
  const text = typed;
  typed = "";
  return text;
}
