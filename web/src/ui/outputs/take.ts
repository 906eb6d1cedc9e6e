// Outputs to the clipboard and to files.

import type { Output } from "../../log/state";
import { settled } from "../../ansi/screen";
import { large } from "../../proto/socket";
import { fileOf, richOf, textOf } from "../../render/take";
import { view } from "../../render/mime";
import { aside } from "../page/aside";
import { save, saveBlob } from "../page/save";

// settle is terminal text as it was in the end; the worker makes it where it is long.
export const settle = (text: string): string | Promise<string> => (text.length > large ? aside.ask<string>("settle", text) : settled(text));

export const textToTake = (output: Output): Promise<string> => textOf(output, settle);

// copyOutput copies text, with its rich form beside it where there is one; an image as an image. It tells whether the
// browser allowed it.
export async function copyOutput(output: Output): Promise<boolean> {
  const shown = output.kind === "data" ? view(output.data) : undefined;
  try {
    if (shown?.kind === "image" && !shown.svg && shown.mime === "image/png") {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": blobOf(shown.data, shown.mime) })]);
      return true;
    }
    const text = shown?.kind === "image" && shown.svg ? shown.data : await textToTake(output);
    const items: Record<string, Blob> = { "text/plain": new Blob([text], { type: "text/plain" }) };
    const rich = richOf(output);
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

export async function saveOutput(output: Output): Promise<void> {
  const file = await fileOf(output, settle);
  if (!file) return;
  if (file.blob) saveBlob(file.name, file.blob);
  else if (file.base64 !== undefined) saveBlob(file.name, blobOf(file.base64, file.type));
  else save(file.name, file.type, file.text ?? "");
}

function blobOf(base64: string, type: string): Blob {
  const text = atob(base64.replaceAll(/\s/g, ""));
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Blob([bytes], { type });
}
