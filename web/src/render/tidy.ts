// HTML whose tags are all closed, in order and not too deep. A browser's parser makes a copy of each formatting element
// that is open and not closed in order for each paragraph behind it, and so may take quadratic time and memory; of tidy
// HTML it makes as many elements as there are tags. It makes nothing safe: that is DOMPurify's part.

const maxDepth = 60; // deeper tags are left out, their text is not
const maxAttributes = 32;

const empty = new Set(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]);
const raw = new Set(["iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "template", "textarea", "title", "xmp"]); // left out with what is in them
const ends = new Set(["dd", "dt", "li", "option", "p", "td", "th", "tr"]); // the start of the next one ends it

export class Tidy {
  tags = 0;
  spread = 0; // characters of text, each as often as elements are around it: what a line of it takes to lay out
  private readonly open: string[] = [];

  get depth(): number {
    return this.open.length;
  }

  // write tidies a part that ends between tags.
  write(html: string): string {
    const missing = new Set<string>(); // ends that do not come any more
    const find = (text: string, from: number): number => {
      const found = missing.has(text) ? -1 : html.indexOf(text, from);
      if (found < 0) missing.add(text);
      return found;
    };
    const lower = html.toLowerCase().length === html.length ? html.toLowerCase() : html;
    let out = "";
    let at = 0;
    for (let start = html.indexOf("<"); start >= 0; start = html.indexOf("<", at)) {
      out += html.slice(at, start);
      this.spread += (start - at) * this.depth;
      at = start + 1;
      if (html.startsWith("<!--", start)) {
        const end = find("-->", start + 4);
        if (end >= 0) at = end + 3;
        else out += "&lt;";
        continue;
      }
      const tag = tagAt(html, start);
      if (!tag) {
        out += "&lt;";
        continue;
      }
      at = tag.end;
      if (tag.closes) out += this.close(tag.name);
      else if (!raw.has(tag.name)) out += this.start(tag.name, tag.attributes);
      else if (!missing.has(tag.name)) {
        const end = lower.indexOf(`</${tag.name}`, at);
        if (end < 0) missing.add(tag.name);
        else at = end;
      }
    }
    this.spread += (html.length - at) * this.depth;
    return out + html.slice(at);
  }

  // end closes what is open.
  end(): string {
    return this.open[0] === undefined ? "" : this.closeFrom(0);
  }

  private start(name: string, attributes: string): string {
    if (empty.has(name)) {
      this.tags++;
      return `<${name}${attributes}>`;
    }
    const before = ends.has(name) && this.open.at(-1) === name ? this.closeFrom(this.open.length - 1) : "";
    if (this.open.length >= maxDepth) return before;
    this.tags++;
    this.open.push(name);
    return `${before}<${name}${attributes}>`;
  }

  private close(name: string): string {
    const index = this.open.lastIndexOf(name);
    return index < 0 ? "" : this.closeFrom(index);
  }

  private closeFrom(index: number): string {
    return this.open.splice(index).reverse().map((name) => `</${name}>`).join("");
  }
}

interface Tag { name: string; closes: boolean; attributes: string; end: number }

const nameAt = /<(\/?)([a-z][a-z0-9:-]{0,30})(?=[\s/>])/iy;
const attributeAt = /[\s/]*([^\s"'<>/=]+)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'<>`]+))?/y;
const endAt = /[\s/]*>/y;

// tagAt reads a tag. Handlers are left out: DOMPurify would take them out too, but the browser complains of each that it
// parses, also in a document that is never shown.
function tagAt(html: string, start: number): Tag | undefined {
  nameAt.lastIndex = start;
  const head = nameAt.exec(html);
  if (!head) return undefined;
  let at = nameAt.lastIndex;
  let attributes = "";
  for (let count = 0; ; count++) {
    attributeAt.lastIndex = at;
    const found = attributeAt.exec(html);
    if (!found) break;
    at = attributeAt.lastIndex;
    const [, name = "", value] = found;
    if (count >= maxAttributes || /^on/i.test(name)) continue;
    attributes += value === undefined ? ` ${name}` : ` ${name}=${/^["']/.test(value) ? value : `"${value}"`}`;
  }
  endAt.lastIndex = at;
  if (!endAt.test(html)) return undefined;
  return { name: (head[2] ?? "").toLowerCase(), closes: head[1] === "/", attributes, end: endAt.lastIndex };
}
