// Files on their way to the server.

import { upload } from "../../proto/rest";
import type { Notebook } from "./notebook.svelte";

export interface Upload { id: number; name: string; part: number; failed: string }

class Uploads {
  list = $state<Upload[]>([]);
  private serial = 0;

  // send uploads files one after another into a folder, and tells what failed.
  async send(nb: Notebook, files: readonly File[], folder: string): Promise<void> {
    const rows = files.map((file) => ({ id: ++this.serial, name: file.name, part: 0, failed: "" }));
    this.list.push(...rows);
    for (const [i, file] of files.entries()) {
      const row = this.list.find((r) => r.id === rows[i]?.id);
      if (!row) continue;
      try {
        await upload(nb.id, folder ? `${folder}/${file.name}` : file.name, file, (part) => (row.part = part));
        this.list = this.list.filter((r) => r.id !== row.id);
      } catch (err) {
        row.failed = err instanceof Error ? err.message : String(err);
      }
      nb.filesChanged++;
    }
  }

  dismiss(id: number): void {
    this.list = this.list.filter((r) => r.id !== id);
  }
}

export const uploads = new Uploads();
