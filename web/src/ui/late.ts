// The parts of a notebook that are not on its first screen: they load once that is drawn.

export { default as Approvals } from "./Approvals.svelte";
export { default as Dialogs } from "./Dialogs.svelte";
export { default as Drawer } from "./Drawer.svelte";
export { default as LargeOutput } from "./LargeOutput.svelte";
export { default as TerminalPanel } from "./TerminalPanel.svelte";
export { default as Viewer } from "./Viewer.svelte";
