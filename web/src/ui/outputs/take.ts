// Outputs to the clipboard and to files.

import type { Output } from "../../log/state";
import { fileOf, richOf, textOf } from "../../render/take";
import { view } from "../../render/mime";
import { save, saveBlob } from "../page/save";

// copyOutput copies text, with its rich form beside it where there is one; an image as an image. It tells whether the
// browser allowed it.
export async function copyOutput(output: Output): Promise<boolean> {
  const shown = output.kind === "data" ? view(output.data) : undefined;
  try {
    if (shown?.kind === "image" && !shown.svg && shown.mime === "image/png") {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blobOf(shown.data, shown.mime) })]);
      return true;
    }
    const text = shown?.kind === "image" && shown.svg ? shown.data : textOf(output);
    const rich = richOf(output);
    const plain = new Blob([text], { type: "text/plain" });
    const items: Record<string, Blob> = { "text/plain": plain };
    const html = rich && await harmless(rich);
    if (html) items["text/html"] = new Blob([html], { type: "text/html" });
    await navigator.clipboard.write([new ClipboardItem(items)]);
    return true;
  } catch {
    return false;
  }
}

async function harmless(html: string): Promise<string | undefined> {
  const { sanitized } = await import("../../render/markdown");
  return sanitized(html);
}

export function saveOutput(output: Output): void {
  const file = fileOf(output);
  if (!file) return;
  if (file.base64 !== undefined) saveBlob(file.name, blobOf(file.base64, file.type));
  else save(file.name, file.type, file.text ?? "");
}

function blobOf(base64: string, type: string): Blob {
  const text = atob(base64.replaceAll(/\s/g, ""));
  return new Blob([Uint8Array.from(text, (c) => c.charCodeAt(0))], { type });
}
