// Elements that come near the window. One observer serves all of them: the browser looks through every observer in each frame.

const margin = "400px";
const waiting = new Map<Element, () => void>();
let watch: IntersectionObserver | undefined;

// whenNear calls back once, when an element has come near. What it returns calls it off.
export function whenNear(element: Element, work: () => void): () => void {
  watch ??= new IntersectionObserver(seen, { rootMargin: margin });
  waiting.set(element, work);
  watch.observe(element);
  return () => forget(element);
}

function seen(entries: readonly IntersectionObserverEntry[]): void {
  for (const { isIntersecting, target } of entries) {
    const work = isIntersecting ? waiting.get(target) : undefined;
    if (!work) continue;
    forget(target);
    work();
  }
}

function forget(element: Element): void {
  waiting.delete(element);
  watch?.unobserve(element);
}
