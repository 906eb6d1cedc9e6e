// Drives a Talaria server with E2B's own SDK: node client.mjs PACKAGE, with E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY in the
// environment. It prints one line for each step, and exits with 1 at the first that fails.
import assert from 'node:assert/strict'

const { Sandbox } = await import(process.argv[2])

async function step(name, run) {
  try {
    await run()
  } catch (error) {
    console.log(`FAILED ${name}: ${error.stack}`)
    process.exit(1)
  }
  console.log(`ok ${name}`)
}

let sandbox
await step('create', async () => {
  sandbox = await Sandbox.create({ metadata: { 'the user': 'a&b=c' }, envs: { COLOR: 'blue' }, timeoutMs: 900_000 })
  assert.equal(await sandbox.isRunning(), true)
})

await step('code', async () => {
  const first = await sandbox.runCode("import os\nx = 41\nprint('hello')\nos.environ['COLOR']")
  assert.deepEqual(first.logs.stdout.join(''), 'hello\n')
  assert.equal(first.text, 'blue')
  assert.equal(first.executionCount, 1)
  const second = await sandbox.runCode('x + 1')
  assert.equal(second.text, '42')
  assert.equal(second.results[0].isMainResult, true)
  const failed = await sandbox.runCode('1/0')
  assert.equal(failed.error.name, 'ZeroDivisionError')
  assert.match(failed.error.traceback, /1\/0/)
  const lines = []
  await sandbox.runCode("import sys\nfor i in range(3): print(i)\nprint('warn', file=sys.stderr)", {
    onStdout: (m) => lines.push(m.line), onStderr: (m) => lines.push(m.line),
  })
  assert.equal(lines.join(''), '0\n1\n2\nwarn\n')
})

await step('environment variables of one call', async () => {
  const during = await sandbox.runCode("if True:\n    import os\n    v = (os.environ['COLOR'], os.environ['SHAPE'])\nv", { envs: { COLOR: 'red', SHAPE: 'round' } })
  assert.equal(during.text, "('red', 'round')")
  const after = await sandbox.runCode("(os.environ['COLOR'], os.environ.get('SHAPE'))")
  assert.equal(after.text, "('blue', None)")
})

await step('charts', async () => {
  const drawn = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.barh(['a', 'b'], [1, 2], label='in')\nplt.xlabel('length (mm)')\nplt.show()")
  assert.equal(drawn.error, undefined)
  const [result] = drawn.results
  assert.ok(result.png.startsWith('iVBOR'))
  assert.equal(result.chart.type, 'bar')
  assert.equal(result.chart.x_unit, 'mm')
  assert.equal(result.chart.orientation, 'horizontal')
  assert.deepEqual(result.chart.elements[1], { label: 'b', group: 'in', value: 2 })
})

await step('a time-out interrupts and keeps the variables', async () => {
  await assert.rejects(sandbox.runCode("print('begun', flush=True)\nimport time\ntime.sleep(600)", { timeoutMs: 1000 }))
  const after = await sandbox.runCode('x')
  assert.equal(after.text, '41')
})

await step('languages', async () => {
  const bash = await sandbox.runCode('echo $((6*7)); pwd', { language: 'bash' })
  assert.match(bash.logs.stdout.join(''), /^42\n/)
  await assert.rejects(sandbox.runCode('1', { language: 'fortran' }))
  const contexts = await sandbox.listCodeContexts()
  assert.deepEqual(contexts.map((c) => c.language), ['python', 'bash', 'javascript'])
  assert.equal((await sandbox.runCode('x', { context: contexts[0] })).text, '41')
  assert.match((await sandbox.runCode('echo $((6*7))', { context: contexts[1] })).logs.stdout.join(''), /^42\n/)
  const further = await sandbox.createCodeContext({ language: 'python', cwd: '/home/user/further' })
  await sandbox.files.makeDir('/home/user/further')
  assert.equal((await sandbox.runCode("import os; 'x' in globals(), os.path.basename(os.getcwd())", { context: further })).text, "(False, 'further')")
  await sandbox.runCode('x = 1', { context: further })
  assert.equal((await sandbox.runCode('x + 1', { context: further })).text, '2')
  assert.equal((await sandbox.runCode('x')).text, '41')
  await sandbox.restartCodeContext(further)
  assert.equal((await sandbox.runCode('x', { context: further })).error.name, 'NameError')
  await sandbox.removeCodeContext(further)
  const made = await sandbox.createCodeContext({ language: 'bash', cwd: '/tmp' })
  assert.equal(made.cwd, '/tmp')
  assert.deepEqual((await sandbox.runCode('pwd', { context: made })).logs.stdout.join('').trim(), '/tmp')
  assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.id).slice(3), [made.id])
  await sandbox.runCode('export A=1; f() { echo f; }; mkdir -p sub; cd sub', { context: made })
  const kept = await sandbox.runCode('echo $A; f; pwd', { context: made })
  assert.equal(kept.logs.stdout.join(''), '1\nf\n/tmp/sub\n')
  assert.equal((await sandbox.runCode('echo "<$A>"', { language: 'bash' })).logs.stdout.join(''), '<>\n')
  await sandbox.restartCodeContext(made)
  assert.equal((await sandbox.runCode('echo "<$A>"; pwd', { context: made })).logs.stdout.join(''), '<>\n/tmp\n')
  assert.equal((await sandbox.runCode('x', { context: contexts[0] })).text, '41') // not restarted
  await sandbox.removeCodeContext(made)
  await assert.rejects(sandbox.runCode('pwd', { context: made }))
})

await step('files', async () => {
  await sandbox.files.write('/home/user/data/a.csv', 'n\n1\n')
  assert.equal(await sandbox.files.read('data/a.csv'), 'n\n1\n')
  const seen = await sandbox.runCode("open('/home/user/data/a.csv').read(), open('data/a.csv').read()")
  assert.equal(seen.error, undefined)
  assert.equal(seen.text, "('n\\n1\\n', 'n\\n1\\n')")
  await sandbox.files.write([{ path: 'b.txt', data: 'b' }, { path: 'c.txt', data: new Uint8Array([1, 2]).buffer }])
  assert.deepEqual([...(await sandbox.files.read('c.txt', { format: 'bytes' }))], [1, 2])
  assert.equal(await sandbox.files.exists('b.txt'), true)
  assert.equal(await sandbox.files.exists('nothing'), false)
  assert.equal(await sandbox.files.makeDir('d/e'), true)
  assert.equal(await sandbox.files.makeDir('d/e'), false)
  const moved = await sandbox.files.rename('b.txt', 'd/b.txt')
  assert.equal(moved.path, '/home/user/d/b.txt')
  const names = (await sandbox.files.list('.', { depth: 2 })).map((f) => `${f.type} ${f.path}`).sort()
  assert.ok(names.includes('file /home/user/d/b.txt') && names.includes('dir /home/user/d/e'), names.join())
  assert.equal((await sandbox.files.getInfo('d/b.txt')).size, 1)
  await sandbox.files.remove('d')
  assert.equal(await sandbox.files.exists('d/b.txt'), false)
  await assert.rejects(sandbox.files.read('nothing'), /nothing/)
  await assert.rejects(sandbox.files.read('/etc/passwd'))
})

await step('commands', async () => {
  const done = await sandbox.commands.run('echo out; echo err >&2; pwd; echo $SHAPE', { envs: { SHAPE: 'round' }, cwd: '/home/user/data' })
  assert.equal(done.stdout, 'out\n/workspace/data\nround\n')
  assert.equal(done.stderr, 'err\n')
  assert.equal(done.exitCode, 0)
  await assert.rejects(sandbox.commands.run('exit 3'), (e) => e.exitCode === 3)
  assert.equal((await sandbox.commands.run('python -c "print(6 * 7)"')).stdout, '42\n') // in a login shell
  const big = await sandbox.commands.run('head -c 3000000 /dev/zero | tr "\\0" x')
  assert.equal(big.stdout.length, 3_000_000)
  const lines = []
  const background = await sandbox.commands.run('echo begun; exec sleep 600', { background: true, onStdout: (s) => lines.push(s) })
  while (lines.length === 0) await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual((await sandbox.commands.list()).map((p) => [p.pid, p.args.at(-1)]), [[background.pid, 'echo begun; exec sleep 600']])
  const second = await sandbox.commands.connect(background.pid)
  assert.equal(await sandbox.commands.kill(background.pid), true)
  await assert.rejects(background.wait(), (e) => e.exitCode === 137)
  await assert.rejects(second.wait())
  assert.equal(await sandbox.commands.kill(background.pid), false)
  assert.equal((await sandbox.runCode('x')).text, '41')
})

await step('watching folders', async () => {
  await sandbox.files.makeDir('watched/sub')
  const seen = []
  let left
  const watch = await sandbox.files.watchDir('watched', (e) => seen.push(`${e.type} ${e.name}`), { recursive: true, onExit: (e) => { left = { e } } })
  await sandbox.files.write('watched/put.txt', 'x')
  await sandbox.commands.run('cd watched && mkdir new && echo x > sub/a && mv sub/a sub/b && rm sub/b && touch end')
  while (!seen.includes('create end')) await new Promise((resolve) => setImmediate(resolve))
  for (const event of ['create put.txt', 'write put.txt', 'create new', 'create sub/a', 'write sub/a', 'rename sub/a', 'create sub/b', 'remove sub/b']) {
    assert.ok(seen.includes(event), `${event} is missing in ${seen.join()}`)
  }
  await watch.stop()
  while (!left) await new Promise((resolve) => setImmediate(resolve))
  await assert.rejects(sandbox.files.watchDir('nothing', () => {}), (e) => /nothing/.test(e.message))
  await assert.rejects(sandbox.files.watchDir('/etc', () => {}))
})

await step('standard input of commands', async () => {
  const sum = await sandbox.commands.run('read a; read b; echo $((a+b)); cat; echo end', { background: true, stdin: true })
  await sandbox.commands.sendStdin(sum.pid, '40\n')
  const again = await sandbox.commands.connect(sum.pid)
  await sandbox.commands.sendStdin(again.pid, '2\nrest')
  await sandbox.commands.closeStdin(sum.pid)
  assert.equal((await sum.wait()).stdout, '42\nrestend\n')
  assert.equal((await again.wait()).exitCode, 0)
  await assert.rejects(sandbox.commands.sendStdin(sum.pid, 'late'), /no program/)
  const none = await sandbox.commands.run('cat; exec sleep 600', { background: true })
  await assert.rejects(sandbox.commands.sendStdin(none.pid, 'x'), /does not read input/)
  await none.kill()
})

await step('terminal', async () => {
  let seen = ''
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (d) => { seen += new TextDecoder().decode(d) } })
  // While bash starts, it reads the size and sets it again, which may undo a resize in between.
  while (!seen.includes('$ ')) await new Promise((resolve) => setTimeout(resolve, 10))
  await sandbox.pty.resize(terminal.pid, { cols: 91, rows: 33 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit 5\n'))
  await assert.rejects(terminal.wait(), (e) => e.exitCode === 5)
  assert.match(seen, /33 91/)
})

await step('signed URLs', async () => {
  const put = await sandbox.uploadUrl('signed.txt')
  const form = new FormData()
  form.append('file', new Blob(['signed']), 'signed.txt')
  assert.equal((await fetch(put, { method: 'POST', body: form })).status, 200)
  const get = await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(get)).text(), 'signed')
  assert.equal((await fetch(get.replace('signed.txt', 'other.txt'))).status, 401)
  assert.equal((await fetch(await sandbox.downloadUrl('signed.txt', { useSignatureExpiration: -5 }))).status, 401)
})

await step('control plane', async () => {
  const info = await Sandbox.getInfo(sandbox.sandboxId)
  assert.equal(info.metadata['the user'], 'a&b=c')
  assert.equal(info.state, 'running')
  const left = info.endAt - Date.now()
  assert.ok(left > 0 && left <= 901_000, `${left} ms left`)
  await sandbox.setTimeout(3_000_000)
  assert.ok((await sandbox.getInfo()).endAt - Date.now() > 1_000_000)
  const found = await Sandbox.list({ query: { metadata: { 'the user': 'a&b=c' } } }).nextItems()
  assert.deepEqual(found.map((s) => s.sandboxId), [sandbox.sandboxId])
  assert.deepEqual(await Sandbox.list({ query: { metadata: { 'the user': 'x' } } }).nextItems(), [])
  const [metrics] = await sandbox.getMetrics()
  assert.ok(metrics.memTotal > 0 && metrics.memUsed > 0)
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await again.runCode('x')).text, '41')
})

await step('pause', async () => {
  const listed = async (state) => (await Sandbox.list({ query: { state: [state] } }).nextItems()).map((s) => s.sandboxId)
  const begun = new Promise((resolve) => {
    sandbox.runCode("print('begun', flush=True)\nimport time\ntime.sleep(1)\nlate = x + 1", { onStdout: resolve }).catch(resolve)
  })
  await begun
  assert.equal(await sandbox.pause(), true) // after the cell
  assert.equal(await sandbox.pause(), false)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal((await sandbox.getInfo()).state, 'paused')
  assert.ok((await listed('paused')).includes(sandbox.sandboxId))
  assert.ok(!(await listed('running')).includes(sandbox.sandboxId))
  await assert.rejects(sandbox.setTimeout(60_000), /paused/)
  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 60_000 })
  assert.equal(await sandbox.isRunning(), true)
  assert.equal((await again.runCode('x, late')).text, '(41, 42)')
  assert.equal(await again.files.read('data/a.csv'), 'n\n1\n')
  const info = await again.getInfo()
  const left = info.endAt - Date.now()
  assert.ok(info.state === 'running' && left > 0 && left <= 61_000, `${info.state}, ${left} ms left`)
  await again.pause()
  assert.equal((await sandbox.runCode('late')).text, '42') // any use wakes it
  await again.pause()
  assert.equal((await again.commands.run('cat data/a.csv')).stdout, 'n\n1\n')
  const other = await Sandbox.create({ lifecycle: { onTimeout: 'pause' } })
  assert.equal((await other.getInfo()).lifecycle.onTimeout, 'pause')
  assert.equal(await other.pause(), true)
  assert.equal(await other.kill(), true)
})

await step('kill', async () => {
  const id = sandbox.sandboxId
  assert.equal(await sandbox.kill(), true)
  assert.equal(await Sandbox.kill(id), false)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(sandbox.runCode('1'))
})
console.log('done')
process.exit(0)
