// Outputs of cells as DOM. What a cell made is data: it only ever becomes text, an image, or a frame without scripts.

import { terminal } from "./ansi.js";

const images = ["image/png", "image/jpeg", "image/gif", "image/webp"];

// syncOutputs brings box up to date with the outputs, touching only what changed.
export function syncOutputs(box, outputs) {
  const shown = box.shown || [];
  outputs.forEach((output, i) => {
    if (shown[i] === output) return;
    const old = box.children[i];
    if (old && output.kind === "stream" && shown[i]?.kind === "stream" && shown[i].name === output.name) {
      syncStream(old, output);
      return;
    }
    const node = render(output);
    if (old) old.replaceWith(node);
    else box.append(node);
  });
  while (box.children.length > outputs.length) box.lastChild.remove();
  box.shown = outputs;
}

function render(output) {
  switch (output.kind) {
    case "stream": {
      const node = element("div", `stream ${output.name}`);
      node.tabIndex = 0;
      node.setAttribute("role", "group");
      node.setAttribute("aria-label", output.name === "stderr" ? "Standard error" : "Standard output");
      syncStream(node, output);
      return node;
    }
    case "error": {
      const node = element("pre", "error");
      node.append(terminal(output.text));
      return node;
    }
  }
  return renderData(output.data, output.metadata || {});
}

// syncStream has one child for each full block, which stays, and one for what is still being written.
function syncStream(node, stream) {
  const atEnd = node.scrollHeight - node.scrollTop - node.clientHeight < 40;
  const known = node.blocks || 0;
  if (known > stream.blocks.length) node.replaceChildren();
  if (node.lastChild?.open) node.lastChild.remove();
  for (let i = node.children.length; i < stream.blocks.length; i++) node.append(block(stream.blocks[i]));
  node.blocks = stream.blocks.length;
  const rest = [...stream.lines, stream.tail].join("\n").replace(/\n$/, "");
  if (rest) {
    const last = block(rest);
    last.open = true;
    node.append(last);
  }
  if (atEnd) node.scrollTop = node.scrollHeight;
}

function block(text) {
  const node = element("pre");
  node.append(terminal(text));
  return node;
}

function renderData(data, metadata) {
  const plain = textOf(data["text/plain"]);
  if (data["text/html"] !== undefined) return frame(textOf(data["text/html"]), plain);
  if (data["image/svg+xml"] !== undefined) return image("image/svg+xml", base64(textOf(data["image/svg+xml"])), plain);
  const type = images.find((t) => data[t] !== undefined);
  if (type) return image(type, textOf(data[type]).replace(/\s/g, ""), plain, metadata[type]);
  const json = data["application/json"];
  const text = data["text/markdown"] ?? data["text/latex"] ?? (json === undefined ? undefined : JSON.stringify(json, null, 2));
  const node = element("pre");
  node.append(terminal(text === undefined ? plain : textOf(text)));
  return node;
}

const textOf = (value) => (value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value));

// image shows SVG too: in an img it runs nothing and loads nothing. size is in CSS pixels, of which one may have
// several of the image's own.
function image(type, data, plain, size) {
  const node = element("img");
  node.src = `data:${type};base64,${data}`;
  node.alt = plain || "Image made by the cell";
  if (size?.width > 0) node.width = size.width;
  return node;
}

function base64(text) {
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return btoa(binary);
}

const frameStyle = `
:root { color-scheme: light dark; }
body { margin: 8px; font: 14px/1.4 system-ui, sans-serif; }
table { border: 0; border-collapse: collapse; font-size: 13px; }
th, td { padding: 3px 10px; text-align: right; border: 0; border-bottom: 1px solid #8884; white-space: nowrap; }
thead th { border-bottom: 1px solid #888; }
img { max-width: 100%; }`;

// frame shows HTML with an origin of its own, no scripts, and the page's policy, which loads nothing from elsewhere.
function frame(html, plain) {
  const box = element("div", "frame");
  const node = element("iframe");
  node.setAttribute("sandbox", "");
  node.referrerPolicy = "no-referrer";
  node.title = plain ? `Output: ${plain.slice(0, 80)}` : "HTML output";
  node.srcdoc = `<!doctype html><meta charset="utf-8"><style>${frameStyle}</style>${html}`;
  box.style.height = `${heightOf(html)}px`;
  box.append(node);
  return box;
}

// heightOf guesses from rows and line breaks, since a frame without scripts cannot tell.
function heightOf(html) {
  const count = (pattern) => (html.match(pattern) || []).length;
  const lines = count(/<tr[\s>]/gi) * 26 + count(/<(?:p|br|li|div|h[1-6])[\s>\/]/gi) * 22 + count(/<img[^>]+src=["']?data:/gi) * 240;
  return Math.max(56, Math.min(480, lines + 36));
}

export function element(name, className = "", text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text) node.textContent = text;
  return node;
}
