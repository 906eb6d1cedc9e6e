// What a plain text box needs for Python: Tab indents, Enter keeps the indentation.

let leaving = false; // Escape was pressed, so that Tab moves on

export function indent(event) {
  const box = event.target;
  if (event.key === "Escape") {
    leaving = true;
    return;
  }
  const wasLeaving = leaving;
  leaving = false;
  if (event.key === "Tab" && !wasLeaving && !event.ctrlKey && !event.altKey && !event.metaKey) {
    event.preventDefault();
    shift(box, event.shiftKey);
  } else if (event.key === "Enter" && !event.isComposing) {
    const line = box.value.slice(0, box.selectionStart).split("\n").at(-1);
    const space = line.match(/^[ \t]*/)[0] + (/:\s*$/.test(line) ? "    " : "");
    if (!space) return;
    event.preventDefault();
    insert(box, box.selectionStart, box.selectionEnd, `\n${space}`);
  }
}

// shift moves the selected lines by four spaces; without a selection Tab puts spaces at the caret.
function shift(box, back) {
  const { selectionStart: from, selectionEnd: to, value } = box;
  if (from === to && !back) {
    insert(box, from, to, "    ");
    return;
  }
  const start = value.lastIndexOf("\n", from - 1) + 1;
  const lines = value.slice(start, to).split("\n");
  const moved = lines.map((line) => (back ? line.replace(/^ {1,4}/, "") : line && `    ${line}`)).join("\n");
  insert(box, start, to, moved);
  box.setSelectionRange(start, start + moved.length);
}

// insert keeps the box's undo history where the browser still can.
function insert(box, from, to, text) {
  box.setSelectionRange(from, to);
  if (!document.execCommand("insertText", false, text)) box.setRangeText(text, from, to, "end");
  box.dispatchEvent(new Event("input", { bubbles: true }));
}
