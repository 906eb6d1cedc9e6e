// What is typed while a notebook opens: its editor takes it over, so that a fast typist loses no letter.

const run = "\r"; // stands for Shift+Enter
let typed = "";

// typeAhead keeps the text of a key, and reports whether it has any.
export function typeAhead(event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return false;
  if (event.key === "Backspace") typed = typed.slice(0, -1);
  else if (event.key === "Enter") typed += event.shiftKey ? run : "\n";
  else if (event.key.length === 1) typed += event.key;
  else return false;
  return true;
}

// takeTyped returns what was typed up to each Shift+Enter and after the last, and forgets it.
export function takeTyped(): string[] {
  const texts = typed.split(run);
  typed = "";
  return texts;
}
