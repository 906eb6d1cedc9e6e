// Letters that join are shaped together, and again for each line that they fill: for a long word of them the browser takes
// quadratic time. So such a word may break after some hundred letters.

const longest = 500; // letters
const long = new RegExp(`\\S{${longest}}(?=\\S)`, "gu");
const foreign = /[^\0-\u02ff]/;

// isShaped tells whether a text has letters that the browser shapes, which takes it longer than Latin ones.
export const isShaped = (text: string): boolean => foreign.test(text);

// isUnbroken tells whether a text has a word that takes too long to lay out in one piece.
export const isUnbroken = (text: string): boolean => text.length > longest && isShaped(text) && text.search(long) >= 0;

// textNodes is a text in which such words may break.
export function textNodes(text: string): Node[] {
  if (!isUnbroken(text)) return [document.createTextNode(text)];
  const nodes: Node[] = [];
  let at = 0;
  for (const found of text.matchAll(long)) {
    const end = found.index + found[0].length;
    nodes.push(document.createTextNode(text.slice(at, end)), document.createElement("wbr"));
    at = end;
  }
  nodes.push(document.createTextNode(text.slice(at)));
  return nodes;
}
