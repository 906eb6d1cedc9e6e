// The acceptance steps of the TypeScript client; acceptance.py has the same.
// Usage: acceptance.mjs MODULE URL TOKEN PROXY. A line "@kill" or "@cut" on stdout asks the test to restart the server,
// or to cut the connections of the proxy.
const [module, url, token, proxy] = process.argv.slice(2);
const { Talaria, TalariaError } = await import(module);

const COUNT = "import time\nfor n in range(40):\n    print(n, flush=True)\n    time.sleep(0.05)";
const NUMBERS = Array.from({ length: 40 }, (_, n) => `${n}\n`).join("");
const PICTURE = "import base64\nclass P:\n  def _repr_png_(self):\n    return base64.b64decode(" +
  "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')\nP()";
const text = (bytes) => new TextDecoder().decode(bytes);

function check(ok, ...what) {
  if (!ok) throw new Error("failed: " + JSON.stringify(what));
}

async function refused(promise, code) {
  const e = await promise.then(() => undefined, (e) => e);
  check(e instanceof TalariaError && e.code === code && e.hint, code, String(e));
}

const talaria = new Talaria({ url, token });
const session = await talaria.session("js-" + crypto.randomUUID());
console.log("1 first result");
let got = await session.run("6 * 7");
check(got.ok && got.text === "42" && got.results[0].text === "42", got);
console.log("2 streamed stdout");
let seen = "";
got = await session.run("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr)", { onStdout: (t) => seen += t });
check(seen === "a\n" && got.stdout === seen && got.stderr === "b\n", got);
console.log("3 picture");
got = await session.run(PICTURE);
check(got.png[0] === 0x89 && text(got.png.slice(1, 4)) === "PNG", got);
console.log("4 error");
got = await session.run("1/0");
check(got.status === "error" && got.error.name === "ZeroDivisionError" && got.error.traceback.includes("1/0"), got);
console.log("5 files in both directions");
await session.files.write("in/å b.txt", new Blob(["hej"]).stream());
got = await session.run("open('out.bin', 'wb').write(open('in/å b.txt', 'rb').read() * 2)");
check(text(await session.files.read("out.bin")) === "hejhej");
check(await new Response(await session.files.stream("out.bin")).text() === "hejhej");
check(text(await session.artifact(got.artifacts[0])) === "hejhej");
check((await session.files.list("in")).map((f) => f.name).join() === "å b.txt");
await session.files.delete("in");
await session.files.delete("in");
check(!(await session.files.list()).some((f) => f.name === "in"));
console.log("6 interrupt");
got = await session.run("print('on', flush=True)\nwhile True: pass", { onStdout: () => session.interrupt() });
check(got.status === "interrupted" && got.state === "kept", got);
console.log("7 timeout");
got = await session.run("while True: pass", { timeout: 0.5 });
check(got.status === "timeout", got);
console.log("8 input");
const asked = [];
got = await session.run("print(input('Who? '))", { onInput: async (prompt) => { asked.push(prompt); return "Ada"; } });
check(got.stdout === "Ada\n" && asked.join() === "Who? ", got);
console.log("9 reset");
await session.run("x = 1");
await session.reset();
check((await session.run("x")).error.name === "NameError");
console.log("10 a kill of the server");
const through = await new Talaria({ url: proxy, token }).session(session.id);
seen = "";
got = await through.run(COUNT, { onStdout: (t) => { if (!seen) console.log("@kill"); seen += t; } });
check(got.ok && got.stdout === NUMBERS && seen === NUMBERS, got);
console.log("11 cut connections");
let cuts = 0;
got = await through.run(COUNT, { onStdout: () => { if (cuts++ < 5) console.log("@cut"); } });
check(got.ok && got.stdout === NUMBERS, got);
console.log("12 a retry runs the cell once");
const id = crypto.randomUUID();
await through.run("runs = 0");
const first = await through.run("runs += 1; print(runs)", { id });
const again = await through.run("runs += 1; print(runs)", { id });
check(first.stdout === "1\n" && again.stdout === "1\n" && (await through.run("print(runs)")).stdout === "1\n");
let seq = 0;
for await (const event of through.events({ follow: false })) check(event.seq === ++seq, event, seq);
check(seq > 10, seq);
console.log("13 delete");
const aborted = new AbortController();
const e = await through.run("print(1, flush=True)\nwhile True: pass", {
  signal: aborted.signal, onStdout: () => aborted.abort(),
}).catch((e) => e);
check(e.name === "AbortError" && (await through.run("5")).text === "5", String(e));
await through.delete();
await through.delete();
await refused(through.run("1"), "session_not_found");
console.log("14 no server");
await refused(new Talaria({ url: "http://127.0.0.1:9", token }).session("x"), "unreachable");
console.log("done");
