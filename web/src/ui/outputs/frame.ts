// The look of HTML in frames: that of the page, as far as tables and text go.

export function frameStyle(dark: boolean): string {
  const [ink, muted, line, ground] = dark ? ["#ede9df", "#a09a8b", "#3a372e", "#1c1b16"] : ["#1b1a17", "#6a665c", "#dcd8cc", "#f3f1ea"];
  return `
    html { background: transparent }
    body { margin: 0; padding: 2px 1px 6px; color: ${ink}; font: 14px/21px system-ui, sans-serif; overflow-x: auto; overflow-wrap: break-word }
    table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; border: 0 }
    table.dataframe, table.dataframe td, table.dataframe th { border: 0 }
    th, td { padding: 3px 12px 3px 0; text-align: right; border: 0; vertical-align: top; max-width: 480px }
    thead th { border-bottom: 1px solid ${line}; font-weight: 600 }
    tbody th { font-weight: 400; color: ${muted} }
    tbody tr:hover td, tbody tr:hover th { background: ${ground} }
    a { color: ${dark ? "#f08a5d" : "#b4411b"} }
    img, svg, video { max-width: 100% }
    pre, code { font: 13px/20px "JetBrains Mono", ui-monospace, monospace; white-space: pre-wrap }
    #chart { min-height: 20px }
    .vega-embed { width: 100% }
    #vg-tooltip-element { position: absolute; padding: 4px 8px; background: ${ground}; color: ${ink}; border: 1px solid ${line}; font: 12px system-ui, sans-serif; pointer-events: none }
    #vg-tooltip-element:not(.visible) { display: none }
  `;
}
