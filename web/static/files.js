// The panel of the workspace's files.

import { call, filePath, sessionPath, upload } from "./api.js";
import { bytes } from "./cells.js";
import { element } from "./output.js";

export class Files {
  constructor({ panel, list, folder, input }, say) {
    Object.assign(this, { panel, list, folder, input, say, id: null, path: "" });
    input.addEventListener("change", () => this.upload(input.files));
    panel.addEventListener("toggle", () => this.refresh());
    panel.addEventListener("dragover", (e) => {
      e.preventDefault();
      panel.classList.add("over");
    });
    panel.addEventListener("dragleave", () => panel.classList.remove("over"));
    panel.addEventListener("drop", (e) => {
      e.preventDefault();
      panel.classList.remove("over");
      this.upload(e.dataTransfer.files);
    });
  }

  open(id) {
    this.id = id;
    this.path = "";
    this.panel.hidden = id === null;
    this.list.replaceChildren();
    this.refresh();
  }

  // refresh is cheap while the panel is closed.
  async refresh() {
    if (this.id === null || !this.panel.open) return;
    const { id, path } = this;
    try {
      const { items } = await call("GET", sessionPath(id, `/files?path=${encodeURIComponent(path)}`));
      if (this.id === id && this.path === path) this.show(items);
    } catch (err) {
      if (path && this.id === id) this.go(""); // the folder went away
      else this.say(err.message);
    }
  }

  go(path) {
    this.path = path;
    this.refresh();
  }

  show(items) {
    this.folder.textContent = `/${this.path}`;
    const rows = items.map((item) => this.row(item));
    if (this.path) {
      const up = element("button", "plain", "↑ up");
      up.type = "button";
      up.addEventListener("click", () => this.go(this.path.split("/").slice(0, -1).join("/")));
      const row = element("li");
      row.append(up);
      rows.unshift(row);
    }
    if (!rows.length) rows.push(element("li", "quiet", "No files yet"));
    this.list.replaceChildren(...rows);
  }

  row(item) {
    const row = element("li");
    if (item.kind === "directory") {
      const enter = element("button", "plain", `${item.name}/`);
      enter.type = "button";
      enter.addEventListener("click", () => this.go(item.path));
      row.append(enter);
    } else if (item.kind === "file") {
      const link = element("a", "", item.name);
      link.href = filePath(this.id, item.path);
      link.download = item.name;
      row.append(link, element("span", "quiet", bytes(item.size)));
    } else {
      row.append(element("span", "quiet", `${item.name} (${item.kind})`));
    }
    const remove = element("button", "plain", "Delete");
    remove.type = "button";
    remove.setAttribute("aria-label", `Delete ${item.name}`);
    remove.addEventListener("click", () => this.remove(item));
    row.append(remove);
    return row;
  }

  async remove(item) {
    if (!confirm(`Delete ${item.name}?`)) return;
    try {
      await call("DELETE", filePath(this.id, item.path));
    } catch (err) {
      this.say(err.message);
    }
    this.refresh();
  }

  async upload(files) {
    if (this.id === null) return;
    const { id, path } = this;
    for (const file of files) {
      this.say(`Uploading ${file.name}…`);
      try {
        await upload(filePath(id, path ? `${path}/${file.name}` : file.name), file);
        this.say(`Uploaded ${file.name}.`);
      } catch (err) {
        this.say(`${file.name}: ${err.message}`);
        break;
      }
    }
    this.input.value = "";
    this.refresh();
  }
}
