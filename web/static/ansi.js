// Text of a terminal as nodes: basic colours and bold stay, every other sequence goes.

const sequence = /\x1b(?:\[([0-9;:?]*)[ -\/]*([@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -\/]*[0-~])|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]/g;

export function terminal(text) {
  const nodes = document.createDocumentFragment();
  let style = { bold: false, colour: 0 };
  let from = 0;
  const add = (piece) => {
    if (!piece) return;
    if (!style.bold && !style.colour) {
      nodes.append(piece);
      return;
    }
    const span = document.createElement("span");
    if (style.bold) span.classList.add("k1");
    if (style.colour) span.classList.add(`k${style.colour}`);
    span.textContent = piece;
    nodes.append(span);
  };
  for (const match of text.matchAll(sequence)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[2] === "m") style = restyled(style, match[1]);
  }
  add(text.slice(from));
  return nodes;
}

function restyled(style, parameters) {
  const codes = parameters.split(";").map(Number);
  let { bold, colour } = style;
  for (let i = 0; i < codes.length; i++) {
    const code = codes[i];
    if (code === 0) [bold, colour] = [false, 0];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (code === 39) colour = 0;
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) colour = code;
    else if (code === 38 || code === 48) i += codes[i + 1] === 5 ? 2 : 4; // 256 and true colours are left out
  }
  return { bold, colour };
}
