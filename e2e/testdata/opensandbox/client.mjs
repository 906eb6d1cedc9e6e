// Drives execd as OpenSandbox's SDKs do. Commands, the health check, the typed client and the dispatcher of events are the
// package's own; running code is written after its code interpreter, which is a package of its own. It prints "done" if all is well.
import assert from 'node:assert/strict';
import { ExecutionEventDispatcher } from '@alibaba-group/opensandbox';
import { CommandsAdapter, HealthAdapter, createExecdClient } from '@alibaba-group/opensandbox/internal';

const baseUrl = process.env.EXECD_URL;
const headers = { 'X-EXECD-ACCESS-TOKEN': process.env.EXECD_TOKEN };
const client = createExecdClient({ baseUrl, headers });
const commands = new CommandsAdapter(client, { baseUrl, headers });

// runCode sends code and reads the events line by line: JSON, with empty lines between.
async function runCode(code, context, handlers = {}) {
  const response = await fetch(`${baseUrl}/code`, {
    method: 'POST', headers: { accept: 'text/event-stream', 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ code, context }),
  });
  assert.equal(response.status, 200, await (response.ok ? '' : response.text()));
  const execution = { logs: { stdout: [], stderr: [] }, result: [] };
  const dispatcher = new ExecutionEventDispatcher(execution, handlers);
  let rest = '';
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + part).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line.trim()) await dispatcher.dispatch(JSON.parse(line));
  }
  assert.equal(rest, '');
  return execution;
}

const text = (messages) => messages.map((m) => m.text).join('');

assert.ok(await new HealthAdapter(client).ping());

// Variables persist in a context, and contexts are apart.
const { data: first } = await client.POST('/code/context', { body: { language: 'python' } });
const { data: second } = await client.POST('/code/context', { body: { language: 'python' } });
assert.equal(first.language, 'python');
await runCode('x = 41', first);
const sum = await runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)\nx + 1', first);
assert.equal(sum.result.at(-1).text, '42');
assert.equal(text(sum.logs.stdout), 'out\n');
assert.equal(text(sum.logs.stderr), 'err\n');
assert.equal(sum.executionCount, 2);
assert.ok(sum.complete.executionTimeMs > 0);
const apart = await runCode('x', second);
assert.equal(apart.error.name, 'NameError');
assert.ok(apart.error.traceback.length > 0);
assert.equal(apart.complete, undefined);

// A chart is a result with a picture.
const chart = await runCode('import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()', first);
assert.ok(chart.result.some((r) => r.raw['image/png']?.startsWith('iVBOR')));

// An interrupt by the id of the execution; the variables stay.
const stopped = await runCode('print("begun", flush=True)\nimport time\ntime.sleep(600)', first, {
  onInit: ({ id }) => { first.execution = id; },
  onStdout: async () => { assert.equal((await client.DELETE('/code', { params: { query: { id: first.execution } } })).response.status, 200); },
});
assert.equal(stopped.error.name, 'KeyboardInterrupt');
assert.equal((await runCode('x', first)).result[0].text, '41');

// Contexts are listed, found and deleted.
const listed = async (language) => (await client.GET('/code/contexts', { params: { query: { language } } })).data.map((c) => c.id);
assert.deepEqual((await listed('python')).sort(), [first.id, second.id].sort());
assert.deepEqual(await listed('bash'), []);
assert.equal((await client.GET('/code/contexts/{context_id}', { params: { path: { context_id: first.id } } })).data.language, 'python');
await client.DELETE('/code/contexts/{context_id}', { params: { path: { context_id: first.id } } });
const gone = await client.GET('/code/contexts/{context_id}', { params: { path: { context_id: first.id } } });
assert.equal(gone.response.status, 404);
assert.equal(gone.error.code, 'CONTEXT_NOT_FOUND');
await client.DELETE('/code/contexts', { params: { query: { language: 'python' } } });
assert.deepEqual(await listed('python'), []);

// Requests without a context share one, with its files: Python, bash, and commands.
await runCode('open("note.txt", "w").write("from python")', { language: 'python' });
const cat = await runCode('cat note.txt', { language: 'bash' });
assert.equal(text(cat.logs.stdout), 'from python');
const command = await commands.run('cat note.txt; echo; echo "$GREETING"; printf "a\\n\\nb"; echo oops >&2; exit 3', { envs: { GREETING: 'hello' } });
assert.deepEqual(command.logs.stdout.map((m) => m.text), ['from python', 'hello', 'a', '\n', 'b']);
assert.deepEqual(command.logs.stderr.map((m) => m.text), ['oops']);
assert.equal(command.exitCode, 3);
assert.equal((await commands.run('true')).exitCode, 0);
assert.equal((await commands.run('pwd', { workingDirectory: '/tmp' })).logs.stdout[0].text, '/tmp');
assert.equal((await commands.run('sleep 600', { timeoutSeconds: 0.5 })).exitCode, 124);
let running;
const interrupted = await commands.run('echo begun; sleep 600', {}, {
  onInit: ({ id }) => { running = id; },
  onStdout: () => commands.interrupt(running),
});
assert.equal(interrupted.exitCode, 143);
await assert.rejects(commands.run('sleep 1', { background: true }), /background/);

console.log('done');
