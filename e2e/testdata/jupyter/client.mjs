// Uses a server as JupyterLab does: with its own library. Prints what it sees as lines of JSON.
import services from '@jupyterlab/services';
import WebSocket from 'ws';

const { KernelManager, KernelSpecManager, ServerConnection, SessionManager } = services;
const [baseUrl, token, mode] = process.argv.slice(2);

// Jupyter Server 1.23 loses a message that arrives before it has begun to connect to its gateway, and the library sends its first
// one as soon as it is connected.
class LaterWebSocket extends WebSocket {
  set onopen(f) {
    super.onopen = (event) => setTimeout(f, 500, event);
  }
}

const serverSettings = ServerConnection.makeSettings({
  baseUrl, wsUrl: baseUrl.replace(/^http/, 'ws'), token, appendToken: true, WebSocket: mode === 'gateway' ? LaterWebSocket : WebSocket,
});
const say = (what, value) => console.log(JSON.stringify({ what, value }));
console.debug = console.warn = () => {};

const specs = new KernelSpecManager({ serverSettings });
await specs.ready;
say('specs', { default: specs.specs.default, names: Object.keys(specs.specs.kernelspecs) });

const kernelManager = new KernelManager({ serverSettings });
const sessions = new SessionManager({ serverSettings, kernelManager });
await sessions.ready;
const session = await sessions.startNew({ path: 'analysis.ipynb', type: 'notebook', name: 'analysis.ipynb', kernel: { name: 'python3' } });
const kernel = session.kernel;
const info = await kernel.info;
say('info', { status: info.status, language: info.language_info.name });

async function run(code, options = {}) {
  const future = kernel.requestExecute({ code, allow_stdin: true, ...options });
  const seen = [];
  future.onIOPub = (m) => {
    const c = m.content;
    switch (m.header.msg_type) {
      case 'stream': // text may come in any number of pieces
        if (seen.at(-1)?.[0] === c.name) seen.at(-1)[1] += c.text;
        else seen.push([c.name, c.text]);
        break;
      case 'execute_result': case 'display_data': seen.push([m.header.msg_type, Object.keys(c.data).sort()]); break;
      case 'error': seen.push(['error', c.ename]); break;
      case 'status': seen.push([c.execution_state]); break;
      default: seen.push([m.header.msg_type]);
    }
  };
  future.onStdin = (m) => { kernel.sendInputReply({ value: 'Ann', status: 'ok' }, m.header); };
  const reply = await future.done;
  return { status: reply.content.status, count: reply.content.execution_count, seen };
}

say('print', await run('x = 20; print(x + 1)'));
say('result', await run('x * 2.1'));
say('chart', await run("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()"));
say('error', await run('1 / 0'));
say('input', await run("print('hello', input('name? '))"));
// A kernel on a busy machine may answer too late, which is told as nothing found.
const patiently = async (ask, found) => {
  for (let tries = 0; ; tries++) {
    const { content } = await ask();
    if (found(content) || tries === 50) return content;
  }
};
say('complete', (await patiently(() => kernel.requestComplete({ code: 'impor', cursor_pos: 5 }), (c) => c.matches.length)).matches);
say('inspect', (await patiently(() => kernel.requestInspect({ code: 'print', cursor_pos: 5, detail_level: 0 }), (c) => c.found)).found);
say('history', (await kernel.requestHistory({ hist_access_type: 'tail', n: 1, output: false, raw: true })).content.history[0][2]);

const endless = kernel.requestExecute({ code: "print('on')\nwhile True: pass" });
let failure = '';
let interrupted = false;
endless.onIOPub = async (m) => {
  if (m.header.msg_type === 'stream' && !interrupted) {
    interrupted = true;
    await kernel.interrupt();
  }
  if (m.header.msg_type === 'error') failure = m.content.ename;
};
const second = kernel.requestExecute({ code: "print('never')" });
say('interrupt', { status: (await endless.done).content.status, ename: failure, second: (await second.done).content.status });

const another = kernelManager.connectTo({ model: kernel.model });
let text = '';
const copied = new Promise((resolve) => another.iopubMessage.connect((_, m) => {
  if (m.header.msg_type === 'stream' && (text += m.content.text).endsWith('\n')) resolve(text);
}));
await another.info;
await run("print('for all')");
say('other client', await copied);
another.dispose();

await kernel.restart();
await kernel.info;
say('restart', await run("print('x' in globals())"));

if (mode !== 'gateway') {
  const died = new Promise((resolve) => kernel.statusChanged.connect((_, s) => { if (s === 'restarting') resolve(s); }));
  kernel.requestExecute({ code: 'import os; os._exit(3)' }).done.catch(() => {}); // the library gives up on what was open
  say('death', await died);
  while (kernel.connectionStatus !== 'connected') await new Promise((r) => kernel.connectionStatusChanged.connect(r));
  say('after death', await run("print('again')"));
}

await session.setPath('renamed.ipynb');
await sessions.refreshRunning();
say('sessions', Array.from(sessions.running(), (s) => s.path));
await session.shutdown();
await kernelManager.refreshRunning();
say('kernels', Array.from(kernelManager.running()).length);
process.exit(0);
