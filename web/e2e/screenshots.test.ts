import { mkdirSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { closeBrowser, Server, Tab } from "./rig";

// Not a test of anything: it takes the pictures of the documentation when it is asked to.

const folder = new URL("../../docs/images/", import.meta.url).pathname;

const story = [
  "# Rain and people\n\nHow much it rains where people live. The mean is $\\bar x = \\frac{1}{n}\\sum_i x_i$.",
  `import numpy as np
import pandas as pd

rng = np.random.default_rng(7)
df = pd.DataFrame({
    "city": ["Lund", "Aarhus", "Turku", "Bergen", "Kiruna"] * 8,
    "year": np.repeat(np.arange(2018, 2026), 5),
    "rain_mm": rng.normal([655, 720, 730, 2490, 520] * 8, 60).round(1),
})
df.loc[3, "rain_mm"] = None
df`,
  `import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(7, 2.8))
for city, part in df.groupby("city"):
    ax.plot(part.year, part.rain_mm, marker="o", label=city)
ax.set_ylabel("mm")
ax.legend(ncols=5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.2))
plt.show()`,
  `for name, color in [("wet", 34), ("dry", 33)]:
    n = (df.rain_mm > 1000).sum() if name == "wet" else (df.rain_mm <= 1000).sum()
    print(f"\\x1b[{color}m{name}\\x1b[0m {n} of {len(df)}")
df.to_csv("rain.csv", index=False)`,
  `def share(part):
    return part / (part.sum() - part.sum())

df.rain_mn.pipe(share)`,
  `limit = float(input("More than how many mm? "))
df[df.rain_mm > limit].city.unique()`,
];

describe.runIf(process.env["TALARIA_SCREENSHOTS"])("pictures", () => {
  afterAll(closeBrowser);

  test("of the main states", async () => {
    mkdirSync(folder, { recursive: true });
    const server = await Server.start();
    try {
      const id = await server.session("Rain and people", story);
      await server.session("Notes of the week", ["1"], { metadata: { source: "chat" } });
      await server.session("Model of the harbour", ["1"]);
      for (let i = 2; i <= 5; i++) await server.run(id, story[i - 1] ?? "", `c-${i}.r00000000`);
      for (const colorScheme of ["light", "dark"] as const) {
        const tab = await Tab.open(server, { colorScheme, viewport: { width: 1280, height: 860 } });
        const { page } = tab;
        const shot = (name: string) => page.screenshot({ path: `${folder}${name}-${colorScheme}.png` });
        await page.waitForSelector("table.sessions");
        await shot("sessions");
        await tab.show(id);
        await page.waitForSelector(".cell[data-id=c-3] img");
        await page.waitForSelector(".katex");
        await page.evaluate("document.fonts.ready");
        await shot("notebook");
        await tab.cell("c-5").scrollIntoViewIfNeeded();
        await tab.cell("c-6").locator("button.number").click();
        await page.waitForSelector(".question input");
        await page.click(".rail >> role=button[name='Variables']");
        await page.waitForSelector(".variables .variable");
        await page.evaluate("scrollTo(0, 1e6)");
        await shot("question");
        await page.fill(".question input", "1000");
        await page.keyboard.press("Enter");
        await tab.ran("c-6");
        await page.click(".drawer >> role=button[name='Close']");
        await page.click(".rail >> role=button[name='Terminal']");
        await page.waitForSelector(".xterm-helper-textarea:focus");
        await page.keyboard.type("head -3 rain.csv; ls -l --color; exit 3\n");
        await page.waitForSelector("text=The shell ended with status 3.");
        await page.waitForSelector(".xterm-rows >> text=city,year,rain_mm");
        await page.evaluate("scrollTo(0, 700)");
        await shot("terminal");
        await page.click(".terminal-panel >> role=button[name='Close']");
        await page.waitForSelector(".terminal-panel", { state: "detached" });
        await page.click(".rail >> role=button[name='Timeline']");
        await page.waitForSelector(".timeline .entry");
        await page.keyboard.press("Control+k");
        await page.waitForSelector(".palette-input");
        await shot("palette");
        await page.keyboard.press("Escape");
        await page.setViewportSize({ width: 390, height: 844 });
        await page.click(".drawer >> role=button[name='Close']");
        await page.evaluate("scrollTo(0, 500)");
        await shot("phone");
        expect(tab.complaints).toEqual([]);
        await tab.close();
      }
    } finally {
      await server.close();
    }
  });
});
