// Which SVG may be an image of the page. An image is laid out by the page's own thread, and a few elements can stand for
// billions: what may take long is shown in a frame, which has a process of its own.

const maxLength = 1 << 16; // characters
const maxUsed = 1 << 20; // characters of all that is used, each time that it is

const heavy = /<!ENTITY|<(?:[a-z]+:)?(?:animate|feImage|filter|foreignObject|image|mask|pattern|set|symbol)/i;

// isLight tells whether an SVG is small, and is that also when all its references are followed.
export function isLight(svg: string): boolean {
  if (svg.length > maxLength || heavy.test(svg)) return false;
  const leaves = new Map<string, number>(); // shapes that can be used, which hold nothing: their length
  for (const { 0: tag, 2: id = "", index } of svg.matchAll(/<(?:circle|ellipse|line|path|polygon|polyline|rect)\b[^<>]*?\bid=(["'])([^"'<>]*)\1/g)) {
    const end = svg.indexOf(">", index + tag.length);
    if (end < 0) return false;
    leaves.set(id, end - index);
  }
  let used = 0;
  for (const [use] of svg.matchAll(/<(?:[a-z]+:)?use\b[^<>]*/gi)) {
    const size = leaves.get(/\bhref=["']#([^"'<>]*)/.exec(use)?.[1] ?? "");
    if (size === undefined) return false;
    used += size;
  }
  return used <= maxUsed;
}
