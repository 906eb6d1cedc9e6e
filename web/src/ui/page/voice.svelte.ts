// What the page says: a sentence for a moment, and what only screen readers are told.

export class Voice {
  said = $state("");
  tone = $state<"quiet" | "bad">("quiet");
  announced = $state("");
  private silence: ReturnType<typeof setTimeout> | undefined;

  say(text: string, tone: "quiet" | "bad" = "quiet"): void {
    clearTimeout(this.silence);
    this.said = text;
    this.tone = tone;
    this.silence = setTimeout(() => (this.said = ""), tone === "bad" ? 12_000 : 6000);
  }

  announce(text: string): void {
    this.announced = text;
  }

  end(): void {
    clearTimeout(this.silence);
  }
}
