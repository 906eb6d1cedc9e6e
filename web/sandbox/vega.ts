// Draws Vega and Vega-Lite charts from their JSON. Expressions are interpreted, never compiled: no eval is allowed here.

import embed, { type Result, type VisualizationSpec } from "vega-embed";
import { expressionInterpreter } from "vega-interpreter";

let last: Result | undefined;

// draw draws a chart in place of the last one.
export async function draw(place: HTMLElement, kind: "vega" | "vega-lite", spec: VisualizationSpec, theme: string) {
  last?.finalize();
  last = undefined;
  last = await embed(place, spec, {
    mode: kind,
    ast: true,
    expr: expressionInterpreter,
    renderer: "svg",
    actions: false,
    tooltip: { disableDefaultStyle: true },
    theme: theme === "dark" ? "dark" : undefined,
    config: { background: "transparent" },
  });
}
