// What a person prefers for the look of the page, kept in this browser.

type Theme = "system" | "light" | "dark";

interface Kept { theme: Theme; compact: boolean; numbers: boolean; reader: boolean; terminalHeight: number }

const key = "talaria.look";

function read(): Kept {
  const kept: Kept = { theme: "system", compact: false, numbers: false, reader: false, terminalHeight: 320 };
  try {
    return { ...kept, ...(JSON.parse(localStorage.getItem(key) ?? "{}") as Partial<Kept>) };
  } catch {
    return kept;
  }
}

const dark = matchMedia("(prefers-color-scheme: dark)");

class Settings {
  theme = $state<Theme>("system");
  compact = $state(false);
  numbers = $state(false);
  reader = $state(false); // terminals are read out
  terminalHeight = $state(320); // px
  private systemDark = $state(dark.matches);

  constructor() {
    Object.assign(this, read());
    dark.addEventListener("change", () => {
      this.systemDark = dark.matches;
      this.apply();
    });
    this.apply();
  }

  get dark(): boolean {
    return this.theme === "dark" || (this.theme === "system" && this.systemDark);
  }

  set(part: Partial<Kept>): void {
    Object.assign(this, part);
    this.apply();
    try {
      localStorage.setItem(key, JSON.stringify(this.kept()));
    } catch { /* it holds for this visit then */ }
  }

  private kept(): Kept {
    const { theme, compact, numbers, reader, terminalHeight } = this;
    return { theme, compact, numbers, reader, terminalHeight };
  }

  private apply(): void {
    const root = document.documentElement;
    root.dataset["theme"] = this.dark ? "dark" : "light";
    root.dataset["density"] = this.compact ? "compact" : "comfortable";
  }
}

export const settings = new Settings();
