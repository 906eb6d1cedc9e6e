// Uses JupyterLab's page as a person does: a notebook of its file browser, and a new one. Prints what the page shows as lines of
// JSON. The arguments are the page's address, the kernel in whose workspace analysis.ipynb is, or nothing where that is the root, the
// number of its cells, and a folder for a picture of each notebook, or nothing.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const [address, kernel, cells, pictures] = process.argv.slice(2);
const say = (what, value) => console.log(JSON.stringify({ what, value }));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run',
    '--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1',
  ],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 2000 } });
const picture = (name) => pictures && page.screenshot({ path: join(pictures, `${name}.png`) });
const complaints = [];
try {
  await use();
} catch (e) {
  console.error(complaints.join('\n'));
  await picture('jupyterlab-failed');
  throw e;
} finally {
  await browser.close();
}

async function use() {
  page.setDefaultTimeout(60_000);
  page.on('pageerror', (e) => complaints.push(String(e.stack)));
  page.on('console', (m) => {
    // JupyterLab asks for what a Jupyter Server may lack, as for a file that a traceback seems to name; and it has forgotten the comms
    // of the kernel that it restarts, which Talaria closes.
    if (m.type() === 'error' && !/^(Failed to load resource|Comm not found)/.test(m.text())) complaints.push(m.text());
  });
  const panel = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden)');
  const press = (command) => panel.locator(`[data-command="${command}"]`).click();
  const cell = (n) => panel.locator('.jp-Cell').nth(n);
  const outputs = (n) => cell(n).locator('.jp-OutputArea').first().locator(':scope > .jp-OutputArea-child > .jp-OutputArea-output');
  const shows = (n, text) => outputs(n).filter({ hasText: text }).first().waitFor();
  const texts = async (n) => (await outputs(n).allInnerTexts()).map((text) => text.trimEnd());
  const select = (n) => cell(n).locator('.jp-InputPrompt').click();
  const run = async (n) => {
    await select(n);
    await press('notebook:run-cell-and-select-next');
  };
  // ready waits until the notebook of this name is in front, and its kernel is connected: until then JupyterLab runs no cell.
  const ready = (name) => page.waitForFunction((name) => {
    const context = globalThis.jupyterapp?.shell.currentWidget?.sessionContext;
    return context?.path.endsWith(name) && context.kernelDisplayStatus === 'idle';
  }, name);
  // accept closes the dialog that is open. The next one comes when it is gone.
  const accept = async () => {
    const [, notebook] = /kernel for (\S+) appears/.exec(await page.locator('.jp-Dialog-content').innerText());
    await page.locator('.jp-Dialog .jp-mod-accept').click();
    await page.locator('.jp-Dialog', { hasText: `kernel for ${notebook} appears` }).waitFor({ state: 'detached' });
  };
  // result is what a cell shows when it has this text, which comes last.
  const result = async (n, last) => {
    await run(n);
    await shows(n, last);
    return texts(n);
  };

  await page.goto(address);
  if (kernel) await page.locator('.jp-DirListing-item', { hasText: kernel }).dblclick();
  await page.locator('.jp-DirListing-item', { hasText: 'table.csv' }).click({ button: 'right' });
  const saved = page.waitForEvent('download');
  await page.locator('.lm-Menu-item[data-command="filebrowser:download"]').click();
  say('a download', [(await saved).suggestedFilename(), readFileSync(await (await saved).path(), 'utf8')]);
  await page.evaluate(async (path) => {
    await globalThis.jupyterapp.commands.execute('docmanager:open', { path, factory: 'Markdown Preview' });
  }, join(kernel, 'notes.md'));
  say('a picture in Markdown', await page.locator('.jp-MarkdownViewer img').evaluate((img) => img.decode().then(() => img.naturalWidth)));
  await page.locator('.jp-DirListing-item', { hasText: 'analysis.ipynb' }).dblclick();
  await ready('analysis.ipynb');
  say('text', await result(0, '42'));
  say('error', (await result(1, 'ZeroDivisionError:')).map((text) => text.split('\n').at(-1)));
  await run(2);
  say('chart', await outputs(2).locator('img').evaluate((img) => img.decode().then(() => `${img.src.split(',')[0]} ${img.naturalWidth > 100}`)));
  await run(3);
  await shows(3, 'it runs');
  await press('notebook:interrupt-kernel');
  await shows(3, 'KeyboardInterrupt');
  await run(4);
  await cell(4).locator('.jp-Stdin-input').fill('Ann');
  await cell(4).locator('.jp-Stdin-input').press('Enter');
  await shows(4, 'hello Ann');
  await cell(4).locator('.jp-Stdin').waitFor({ state: 'detached' });
  say('input', await texts(4));
  await cell(5).locator('.cm-content').click();
  await page.keyboard.type('globa');
  // JupyterLab drops an answer that takes more than a second. A person presses Tab again.
  const completion = page.locator('.jp-Completer-item', { hasText: 'globals' }).first();
  for (let tries = 1; ; tries++) {
    await page.keyboard.press('Tab');
    try {
      await completion.click({ timeout: 5_000 });
      break;
    } catch (e) {
      if (tries === 10) throw e;
    }
  }
  await cell(5).locator('.cm-content', { hasText: 'globals' }).waitFor();
  say('completed', await cell(5).locator('.cm-content').innerText());

  if (Number(cells) > 7) {
    const slider = async (n, move) => {
      await cell(n).locator('.noUi-handle').focus();
      await page.keyboard.press(move);
    };
    await run(7);
    await run(8);
    await slider(8, 'ArrowRight');
    await shows(8, 'moved to 4');
    await slider(8, 'End');
    await shows(8, 'moved to 100');
    say('value in Python', await result(9, '100'));
    await run(10);
    await cell(8).locator('.widget-readout', { hasText: '9' }).waitFor();
    await run(11);
    await shows(11, 'n is 5');
    await slider(11, 'ArrowLeft');
    await shows(11, 'n is 4');
    await picture('jupyterlab');
  }

  await select(0);
  await page.keyboard.press('Control+s');
  await page.locator('.lm-TabBar-tab.jp-mod-current:not(.jp-mod-dirty)', { hasText: 'analysis.ipynb' }).waitFor();
  await press('notebook:restart-kernel');
  const restarted = page.waitForResponse((answer) => answer.url().includes('/restart'));
  await page.locator('.jp-Dialog .jp-mod-accept').click();
  await restarted;
  await ready('analysis.ipynb');
  say('after a restart', await result(6, 'False'));

  await page.locator('.jp-BreadCrumbs-home').click();
  await page.locator('.lm-TabBar-tab', { hasText: 'Launcher' }).click();
  await page.locator('.jp-LauncherCard[data-category="Notebook"]').click();
  await ready('Untitled.ipynb');
  await cell(0).locator('.cm-content').click();
  await page.keyboard.type('6 * 7');
  await press('notebook:run-cell-and-select-next');
  await shows(0, '42');
  say('a new notebook', await texts(0));
  await page.keyboard.type('import os; os._exit(9)');
  await press('notebook:run-cell-and-select-next');
  say('a death', (await page.locator('.jp-Dialog-content').innerText()).includes('appears to have died'));
  await accept();
  if (!kernel) await accept(); // the other notebook has the same kernel, and a dialog, too
  await ready('Untitled.ipynb');
  await cell(2).locator('.cm-content').click();
  await page.keyboard.type('6 * 7 + 1');
  await press('notebook:run-cell-and-select-next');
  await shows(2, '43');
  say('after a death', await texts(2));
  await picture('jupyterlab-new');
  say('complaints', complaints);
}
