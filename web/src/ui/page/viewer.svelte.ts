// The image that fills the page; one at a time.

export interface Viewed { src: string; alt: string; name: string }

class Viewer {
  shown = $state.raw<Viewed>();

  open(image: Viewed): void {
    this.shown = image;
  }

  close(): void {
    this.shown = undefined;
  }
}

export const viewer = new Viewer();
