// Is the front end of ipywidgets, as JupyterLab's widget manager talks to a kernel. Prints what it sees as lines of JSON.
import services from '@jupyterlab/services';
import WebSocket from 'ws';

const { KernelManager, ServerConnection } = services;
const [baseUrl, token, mode] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({
  baseUrl, wsUrl: baseUrl.replace(/^http/, 'ws'), token, appendToken: true, WebSocket,
});
const say = (what, value) => console.log(JSON.stringify({ what, value }));
console.debug = console.warn = () => {};
const kernel = await new KernelManager({ serverSettings }).startNew({ name: 'python3' });

const models = new Map(); // by comm id: the comm, its state, and the buffers of its last message
let changed = () => {};
function follow(comm, msg) {
  const model = { comm, state: msg.content.data.state ?? msg.content.data, buffers: msg.buffers ?? [], closed: false, old: !msg.content.data.state };
  models.set(comm.commId, model);
  comm.onMsg = (m) => {
    Object.assign(model.state, m.content.data.state);
    model.data = m.content.data;
    model.buffers = m.buffers ?? [];
    changed();
  };
  comm.onClose = () => { model.closed = true; changed(); };
}
kernel.registerCommTarget('jupyter.widget', follow);
kernel.registerCommTarget('test.buffers', follow);

async function until(found) {
  for (let value; ;) {
    if ((value = found())) return value;
    await new Promise((resolve) => { changed = resolve; });
  }
}

async function run(code, options = {}) {
  const future = kernel.requestExecute({ code, ...options });
  let text = '';
  future.onIOPub = (m) => {
    if (m.header.msg_type === 'stream') text += m.content.text;
    if (m.header.msg_type === 'error') text += m.content.traceback.join('\n');
  };
  const reply = await future.done;
  return { text, content: reply.content };
}

// send returns what the kernel prints for a message.
async function send(comm, data, buffers) {
  let text = '';
  const future = comm.send(data, undefined, buffers);
  future.onIOPub = (m) => { if (m.header.msg_type === 'stream') text += m.content.text; };
  await future.done;
  return text;
}
// move changes a widget's value, in the words of ipywidgets 7 and 8, or of 6 where it opened its comm with its bare state.
const move = (model, value) => send(model.comm, model.old
  ? { method: 'backbone', sync_data: { value } } : { method: 'update', state: { value }, buffer_paths: [] });
const bytes = (view) => Array.from(new Uint8Array(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength));

const values = (await run('n = 20', { user_expressions: { double: 'n * 2', wrong: 'nothing' } })).content.user_expressions;
say('expressions', [values.double.data['text/plain'], values.wrong.ename]);

await run(`
from comm import create_comm
raw = create_comm('test.buffers', buffers=[bytes(range(256))])
def back(msg):
    print(len(msg['buffers']), bytes(msg['buffers'][0]) == bytes(range(255, -1, -1)) * 4096)
    raw.send({'echo': True}, buffers=[bytes(msg['buffers'][0])[:4], b''])
raw.on_msg(back)`);
const raw = await until(() => [...models.values()].find((m) => m.comm.targetName === 'test.buffers'));
say('buffers out', bytes(raw.buffers[0]).every((b, i) => b === i) && raw.buffers[0].byteLength);
const large = new Uint8Array(256 * 4096).map((_, i) => 255 - (i % 256));
say('buffers in', await send(raw.comm, {}, [large.buffer]));
say('buffers back', (await until(() => raw.data?.echo && raw.buffers)).map(bytes));

if (mode === 'ipywidgets') {
  await run('import ipywidgets');
  const version = kernel.createComm('jupyter.widget.version'); // ipywidgets 6 asks for it, later ones close it
  await new Promise((resolve) => {
    version.onClose = resolve;
    version.onMsg = () => resolve(version.send({ validated: true }).done);
    version.open({});
  });
  say('slider', (await run(`
import ipywidgets as widgets
from IPython.display import display
slider = widgets.IntSlider(value=3, max=50)
slider.observe(lambda change: print('moved to', change['new']), 'value')
display(slider)`)).text);
  const slider = await until(() => [...models.values()].find((m) => m.state._model_name === 'IntSliderModel'));
  say('value', slider.state.value);
  say('move', await move(slider, 7));
  say('in python', (await run('print(slider.value)')).text);
  await run('slider.value = 9');
  say('back', await until(() => slider.state.value === 9));
  say('interact', (await run(`
@widgets.interact(x=(0, 10))
def show(x=2):
    print('x is', x)`)).text);
  const x = await until(() => [...models.values()].find((m) => m.state.description === 'x'));
  say('interact moves', await move(x, 5));
}

const info = (await kernel.requestCommInfo({ target_name: 'test.buffers' })).content;
say('info', Object.values(info.comms).map((c) => c.target_name));
await run("await __import__('asyncio').sleep(0)");
kernel.requestExecute({ code: 'import os; os._exit(3)' }).done.catch(() => {});
say('death closes', await until(() => raw.closed || kernel.status === 'restarting'));
process.exit(0);
