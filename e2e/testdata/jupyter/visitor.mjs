// Uses a server as JupyterLab does that has the token of one session. Prints what it sees as lines of JSON. The session has the
// variable x and the file t.txt.
import services from '@jupyterlab/services';
import WebSocket from 'ws';

const { ContentsManager, KernelManager, ServerConnection, SessionManager } = services;
const [baseUrl, token, mode] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({
  baseUrl, wsUrl: baseUrl.replace(/^http/, 'ws'), token, appendToken: true, WebSocket,
});
const say = (what, value) => console.log(JSON.stringify({ what, value }));
console.debug = console.warn = () => {};
const failure = (promise) => promise.then(() => 'it worked', (e) => `${e.response?.status} ${e.message}`);

const kernelManager = new KernelManager({ serverSettings });
const sessions = new SessionManager({ serverSettings, kernelManager });
await sessions.ready;
const listed = async () => {
  await sessions.refreshRunning();
  return Array.from(sessions.running(), (s) => s.path).sort();
};
const open = (path, kernel = { name: 'python3' }) => sessions.startNew({ path, type: 'notebook', name: path.split('/').at(-1), kernel });
async function run(session, code) {
  const future = session.kernel.requestExecute({ code });
  let text = '';
  future.onIOPub = (m) => { text += m.content.text ?? m.content.evalue ?? ''; };
  await future.done;
  return text;
}

if (mode === 'read') {
  say('opening', await failure(open('notes/a.ipynb')));
  say('listed', await listed());
  process.exit(0);
}

const a = await open('notes/a.ipynb');
const b = await open('b.ipynb');
say('kernels', [a.kernel.id, b.kernel.id]);
say('runs', await run(a, 'x += 1; print(x)'));
say('again', (await open('notes/a.ipynb')).id === a.id);
await a.setPath('notes/renamed.ipynb');
say('listed', await listed());
say('kernel of another session', await failure(open('c.ipynb', { id: mode })));
say('outside', await failure(open('../c.ipynb')));
say('file', (await new ContentsManager({ serverSettings }).get('t.txt')).writable);
say('saving', await failure(new ContentsManager({ serverSettings }).save('t.txt', { type: 'file', format: 'text', content: '' })));
await a.shutdown();
say('after a shutdown', [await listed(), await run(b, 'print(x)')]);
await b.changeKernel({ name: 'python3' });
await b.kernel.info;
say('after another kernel', [b.kernel.id, await run(b, "print('x' in globals())")]);
process.exit(0);
