// What the page says: a sentence for a moment, and announcements for screen readers alone.

// Action is a button beside the sentence. One that stays is there, with its sentence, until something else is said or happens.
export interface Action { label: string; run: () => void; stays?: boolean }

export class Voice {
  said = $state("");
  tone = $state<"quiet" | "bad">("quiet");
  action = $state.raw<Action>();
  announced = $state("");
  private silence: ReturnType<typeof setTimeout> | undefined;

  say(text: string, tone: "quiet" | "bad" = "quiet", action?: Action): void {
    clearTimeout(this.silence);
    this.said = text;
    this.tone = tone;
    this.action = action;
    if (action?.stays) return;
    this.silence = setTimeout(() => (this.said = ""), tone === "bad" ? 12_000 : 6000);
  }

  // endStay ends a sentence that stays.
  endStay(): void {
    if (this.action?.stays) this.say("");
  }

  announce(text: string): void {
    this.announced = text;
  }

  end(): void {
    clearTimeout(this.silence);
  }
}
