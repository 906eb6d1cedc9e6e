// The acceptance steps of the TypeScript client; acceptance.py has the same.
// Usage: acceptance.mjs MODULE URL TOKEN PROXY. A line "@kill", "@cut" or "@lose" on stdout asks the test to restart the
// server, to cut the connections of the proxy, or to drop the next answer. The test answers with an empty line on stdin
// when that is done.
import { once } from "node:events";
import { createInterface } from "node:readline";

const [module, url, token, proxy] = process.argv.slice(2);
const { Talaria, TalariaError, ToolError } = await import(module);
const answers = createInterface({ input: process.stdin });

async function ask(word) {
  console.log("@" + word);
  await once(answers, "line");
}

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

try {
  check(!new Talaria({ token }), "a client without a URL");
} catch (e) {
  check(e.message.startsWith("url is missing"), String(e));
}
const talaria = new Talaria({ url, token });
const session = await talaria.session("js-" + crypto.randomUUID());
console.log("1 first result");
let got = await session.run("6 * 7");
check(got.ok && got.text === "42" && got.results[0].text === "42", got);
console.log("2 streamed stdout and stderr");
let seen = "", errors = "";
got = await session.run("import sys\nprint('a', flush=True)\nprint('b', file=sys.stderr)", {
  onStdout: (t) => seen += t, onStderr: (t) => errors += t,
});
check(seen === "a\n" && got.stdout === seen && errors === "b\n" && got.stderr === errors, got, errors);
console.log("3 picture");
got = await session.run(PICTURE);
check(got.png[0] === 0x89 && text(got.png.slice(1, 4)) === "PNG", got);
console.log("32 updated displays, and events");
const shown = [], types = [];
got = await session.run("handle = display('half', display_id=True)\nhandle.update('full')\nprint('a\\n', end='')\n42", {
  onDisplay: (result) => shown.push(result.text), onEvent: (event) => types.push(event.type),
});
check(shown.join() === "'half','full',42" && got.results.map((r) => r.text).join() === "'full',42", shown, got);
check(types.join() ===
  "execution_queued,execution_started,display_data,update_display_data,stream,execute_result,execution_finished", types);
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
got = await through.run(COUNT, { onStdout: (t) => { if (!seen) ask("kill"); seen += t; } });
check(got.ok && got.stdout === NUMBERS && seen === NUMBERS, got);
console.log("11 cut connections");
let cuts = 0;
got = await through.run(COUNT, { onStdout: () => { if (cuts++ < 5) ask("cut"); } });
check(got.ok && got.stdout === NUMBERS, got);
console.log("12 a retry runs the cell once");
const id = crypto.randomUUID();
await through.run("runs = 0");
const first = await through.run("runs += 1; print(runs)", { id });
const again = await through.run("runs += 1; print(runs)", { id });
check(first.stdout === "1\n" && again.stdout === "1\n" && (await through.run("print(runs)")).stdout === "1\n");
console.log("33 an answer that is lost");
await ask("lose");
got = await through.run("runs += 1; print(runs)");
check(got.stdout === "2\n" && (await through.run("print(runs)")).stdout === "2\n", got);
await ask("lose");
await refused(through.reset(), "unreachable");
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

const tools = await new Talaria({ url: proxy, token }).session("tools-" + crypto.randomUUID());
const run = async (code, options) => {
  const got = await tools.run(code, options);
  check(got.ok, got);
  return got.stdout;
};
const trip = {
  type: "object", required: ["trip"],
  properties: {
    trip: { type: "object", required: ["city"], properties: { city: { type: "string" }, days: { type: "integer", default: 3 } } },
    mode: { enum: ["train", "boat"], default: "train" },
  },
};
console.log("17 a tool from a function");
await tools.tool({
  name: "plan", description: "Plans a trip.", parameters: trip,
  run({ trip: { city, days = 3 }, mode = "train" }) {
    if (city === "atlantis") throw new ToolError("no such city", "no_city");
    if (city === "ys") throw new TypeError("flooded");
    return { city, days, mode };
  },
});
check(await run(`
import hermes_tools, inspect
from hermes_tools import plan
print(inspect.getdoc(plan).splitlines()[0])
print(plan({"city": "oslo"}), plan(trip={"city": "lund", "days": "5"}, mode="boat"))
`) === "Plans a trip.\n{'city': 'oslo', 'days': 3, 'mode': 'train'} {'city': 'lund', 'days': 5, 'mode': 'boat'}\n");
console.log("18 errors with codes");
check((await run(`
for city in "atlantis", "ys":
    try: plan({"city": city})
    except hermes_tools.ToolError as e: print(e.code, "|", e.message)
`)) === "no_city | no such city\ntool_error | TypeError: flooded\n");
console.log("19 calls at once");
let met = 0, open;
const all = new Promise((resolve) => open = resolve);
await tools.tool({
  name: "together", readOnly: true,
  run: async ({ n }) => { if (++met === 8) open(); await all; return n; },
});
check(await run(`
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as pool:
    print(list(pool.map(lambda n: hermes_tools.together(n=n), range(8))))
`) === "[0, 1, 2, 3, 4, 5, 6, 7]\n");
console.log("20 an interrupt and a time limit cancel calls");
const reasons = {}; // why calls were cancelled, by tool
const cancelled = (call) =>
  reasons[call.tool] = once(call.signal, "abort").then(() => call.signal.reason.message.split(": ").at(-1));
await tools.tool({ name: "brief", timeoutS: 0.3, run: (_, call) => cancelled(call) });
await tools.tool({
  name: "endless",
  async run(_, call) {
    call.progress("waiting");
    await Promise.all([cancelled(call), tools.interrupt(call.executionId)]);
  },
});
check(await run("kept = 42\ntry: hermes_tools.brief()\nexcept hermes_tools.ToolTimeout as e: print(e.code)") === "timeout\n");
check(await reasons.brief === "timeout");
check((await tools.run("hermes_tools.endless()")).status === "interrupted" && await reasons.endless === "interrupted");
check(await run("print(kept)") === "42\n");
console.log("21 a lost connection during calls");
const calls = [];
for (const how of ["cut", "kill"]) {
  await tools.tool({
    name: how + "_once", idempotent: true,
    async run({ n }, call) {
      calls.push(how + n);
      if (calls.length === 1) await ask(how);
      return n + 1;
    },
  });
}
await tools.tool({ name: "cut_twice", run: async (_, call) => { await Promise.all([cancelled(call), ask("cut")]); } });
for (const how of ["cut", "kill"]) {
  check(await run(`print(hermes_tools.${how}_once(n=41))`) === "42\n");
  check(calls.splice(0).join() === how + 41, calls);
}
check(await run("try: hermes_tools.cut_twice()\nexcept hermes_tools.ProviderGone: print('gone')") === "gone\n");
check(await reasons.cut_twice === "disconnected");
check(await run("print(hermes_tools.together.__name__)") === "together\n");
console.log("22 tools that are not taken, and that are withdrawn");
const e22 = await tools.tool({ name: "aio", run() {} }).catch((e) => e);
check(e22.code === "tool_rejected" && e22.message.includes("aio"), String(e22));
await tools.removeTool("together");
check(await run("try: hermes_tools.together(n=1)\nexcept hermes_tools.ToolUnavailable: print('none')") === "none\n");
await tools.close();
check(await run("try: plan({'city': 'oslo'})\nexcept hermes_tools.ToolUnavailable: print('none')") === "none\n");
console.log("23 tools of one cell, over HTTP");
const double = {
  name: "double", parameters: { type: "object", properties: { n: { type: "integer" } } }, run: ({ n }) => 2 * n,
};
const own = "from hermes_tools import double\nprint(double(n=4), double(n=5))";
let printed = "";
check(await run(own, { tools: [double], onStdout: (t) => printed += t }) === "8 10\n" && printed === "8 10\n");
check(await run(own.replace("(n=5)", "(n=double(n=5))"), { tools: [double] }) === "8 20\n");
const stop = { name: "stop", run: (_, call) => Promise.all([cancelled(call), tools.interrupt(call.executionId)]) };
got = await tools.run("from hermes_tools import stop\nstop()", { tools: [stop] });
check(got.status === "interrupted" && await reasons.stop === "interrupted", got);
check(!(await tools.run("from hermes_tools import double\ndouble(n=1)")).ok);
console.log("24 a download that was cut");
await run("data = bytes(range(256)) * (128 << 10)\nopen('big', 'wb').write(data)");
const download = async (interfere) => {
  const pieces = [];
  for await (const piece of await tools.files.stream("big")) if (pieces.push(piece) === 1) await interfere();
  return Buffer.concat(pieces);
};
check((await download(() => ask("cut"))).equals(Buffer.alloc(32 << 20, Uint8Array.from({ length: 256 }, (_, n) => n))));
const changed = await download(async () => { await tools.files.write("big", "other"); await ask("cut"); }).catch((e) => e);
check(changed.code === "file_changed", String(changed));
await tools.delete();
console.log("26 approvals");
const asking = await new Talaria({ url: proxy, token }).session("asks-" + crypto.randomUUID(), { approvals: "all" });
const kinds = [];
await asking.tool({ name: "send", requiresApproval: true, run: ({ text }) => "sent " + text });
await asking.onApproval(async ({ kind, detail }) => { kinds.push(kind); return detail.includes("secret") ? "deny" : "once"; });
got = await asking.run("from hermes_tools import send\nprint(send(text='a' + 'b'))");
check(got.stdout === "sent ab\n" && kinds.join() === "cell,tool", got, kinds);
got = await asking.run("try: send(text='sec' + 'ret')\nexcept Exception as e: print(type(e).__name__)");
check(got.stdout === "ApprovalDenied\n", got);
got = await asking.run("secret = 1");
check(got.status === "cancelled" && got.reason === "denied", got);
await asking.delete();
console.log("27 tokens");
const server = new Talaria({ url: proxy, token });
const made = await server.session();
const ofSession = await made.token();
check(ofSession.token && ofSession.rights.join() === "read", ofSession);
const mine = await server.tokens();
check(mine.some((t) => t.session === undefined && t.last_used_at) && mine.some((t) => t.id === ofSession.id && t.session === made.id), mine);
await server.revokeToken(ofSession.id);
check(!(await server.tokens()).some((t) => t.id === ofSession.id));
const twice = await server.revokeToken(ofSession.id).catch((e) => e);
check(twice instanceof TalariaError && twice.code === "not_found", String(twice));
console.log("34 a token for one session");
const codeOf = (promise) => promise.then(() => undefined, (e) => e.code);
await made.run("x = 1");
const one = await made.token({ rights: ["run", "write"], expires: 60 });
check(one.rights.join() === "read,run,write", one);
const visitor = new Talaria({ url: proxy, token: one.token });
const visited = await visitor.session(made.id);
await visited.tool({ name: "nothing", run() {} });
await visited.files.write("a.txt", "a");
got = await visited.run("x += 1\nprint(x, open('a.txt').read())");
check(got.stdout === "2 a\n", got);
await visited.close();
check(await codeOf(visitor.session(made.id, { idle_timeout_s: 99 })) === "forbidden");
check(await codeOf(visited.token()) === "forbidden");
check(await codeOf(visitor.session(made.id + "x")) === "session_not_found");
await made.delete();
console.log("35 a session that exists with other settings");
const settled = await server.session("settings-" + crypto.randomUUID(), { idle_timeout_s: 99 });
const differ = await server.session(settled.id, { idle_timeout_s: 77 }).catch((e) => e);
check(differ.code === "session_conflict" && differ.message.includes("if_exists") && differ.hint.includes("ifExists"), differ);
check((await server.session(settled.id, { idle_timeout_s: 77 }, { ifExists: "keep" })).info.idle_timeout_s === 99);
check((await server.session(settled.id, { idle_timeout_s: 77 }, { ifExists: "apply" })).info.idle_timeout_s === 77);
await settled.delete();
console.log("28 checkpoints");
const back = await new Talaria({ url: proxy, token }).session("back-" + crypto.randomUUID());
const firstCell = await back.run("x = 1\nopen('a', 'w').write('one')");
const point = await back.checkpoint("good");
check(point.name === "good" && point.level === "live" && point.execution_id === firstCell.id && !point.undo, point);
await back.run("x = 2\nopen('a', 'w').write('two')");
const sinceThen = await back.diff(point);
check(sinceThen.files[0].path === "a" && sinceThen.variables[0].name === "x", sinceThen);
check((await back.diff(point.id, point)).files.length === 0);
const undone = await back.rollback(point);
check(undone.checkpoint_id === point.id && undone.undo_level === "live" && undone.files === 1, undone);
check((await back.run("x, open('a').read()")).text === "(1, 'one')");
await back.rollback(undone.undo, { what: "files" });
check((await back.run("x, open('a').read()")).text === "(1, 'two')");
check((await back.rollback(firstCell, { keepUserEdits: true })).checkpoint_id === point.id);
const listed = await back.checkpoints();
check(listed.length === 4 && listed[3].id === point.id && listed[0].undo, listed);
check((await back.checkpoint(undefined, { level: "files" })).reason);
await back.deleteCheckpoint(point);
await back.deleteCheckpoint(point.id);
await refused(back.rollback(point), "checkpoint_gone");
await back.run("x = 3", { checkpoint: true });
check((await back.diff((await back.checkpoints())[0])).variables.length === 1);
const disk = await back.checkpoint("disk", { level: "saved" });
check(disk.level === "saved" && !disk.reason, disk);
const [early] = await back.fork(1, undefined, { checkpoint: disk });
check((await early.run("x")).text === "3");
console.log("28 hibernation and forks");
await back.run("x = 1; y = [1]; g = (i for i in y)");
const [way, otherWay] = await back.fork(2, "another way");
check((await back.hibernate())[0].name === "g" && back.info.state === "hibernated" && back.info.not_saved === undefined, back.info);
check((await back.hibernate()).length === 1);
check((await back.wake())[0].name === "g" && back.info.state === "idle", back.info);
check((await back.wake()).length === 0);
check((await way.run("y.append(2)\nx, y, open('a').read()")).text === "(1, [1, 2], 'one')" && way.info.name === "another way");
check((await otherWay.run("y")).text === "[1]" && (await back.run("y")).text === "[1]");
check((await back.fork(65).catch((e) => e)).code === "invalid_request");
await way.delete();
await otherWay.delete();
console.log("29 maps");
let ended = [];
let map = await back.map("print('at', item)\nitem * 10 + index + x", [3, 1, 2], { onItem: (i) => ended.push(i.index) });
check(map.ok && map.values.join() === "31,12,23" && map.items[1].text === "at 1\n", map);
check(ended.sort().join() === "0,1,2", ended);
map = await back.map({ function: "len" }, ["ab", 7], { concurrency: 1 });
check(!map.ok && map.status === "ok" && map.values[0] === 2 && map.items[1].error.name === "TypeError", map);
map = await back.map(PICTURE + "\nimport talaria\n(talaria.item_dir / 'f').write_text(item)\ndisplay(P())\n{1}", ["file"]);
check(map.items[0].results[0].png && map.items[0].valueType === "repr" && map.items[0].value === "{1}", map);
check(text(await back.artifact(map.items[0].artifacts[0])) === "file");
map = await back.map("if item: raise ValueError(item)", [1, 0, 0], { concurrency: 1, onError: "stop" });
check(map.items.map((i) => i.status).join() === "error,cancelled,cancelled", map);
map = await back.map("while item: pass", [1, 0], { timeout: 5 }); // in real time, and a busy machine may be slow to begin the second
check(map.items.map((i) => i.status).join() === "timeout,ok", map);
map = await back.map({ function: "nothing" }, [1]);
check(map.status === "error" && map.error.name === "NameError" && !map.ok, map);
const stopped = new AbortController();
const leftMap = await back.map("while item: pass", [0, 1], {
  concurrency: 1, signal: stopped.signal, onItem: () => stopped.abort(new Error("enough")),
}).catch((e) => e);
check(leftMap.message === "enough" && (await back.run("5")).text === "5", String(leftMap));
console.log("30 a map while the server is killed");
ended = [];
map = await back.map("import time; time.sleep(0.05); item * 2", [...Array(20).keys()], {
  concurrency: 1, onItem: ({ index }) => { if (ended.push(index) === 1) ask("kill"); else if (ended.length === 5) ask("cut"); },
});
check(map.values.join() === [...Array(20).keys()].map((n) => 2 * n).join() && new Set(ended).size === 20 && ended.length === 20, map);
await back.delete();
answers.close();
console.log("done");
