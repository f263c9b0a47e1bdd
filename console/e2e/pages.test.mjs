import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { Browser, chat, post, press, Server, shot, shows, texts, unique, until } from './harness.mjs';

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([new Server(['dev'], undefined).start(), Browser.start()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const program = process.env.CONSOLE_PROGRAM;

let sent = 0;

/** Sends a message and waits for its outcome. */
async function settled(id, body) {
  sent++;
  const { submissionId } = await post(server, id, body);
  await until(async () => {
    const { settlements } = await (await fetch(`${server.base}/agents/helper/${id}`)).json();
    return settlements.some((s) => s.submissionId === submissionId);
  });
  return submissionId;
}

/** The output of a command for the folder of the server. */
const printed = (...args) => JSON.parse(execFileSync(program, [...args, '--json', '--data', join(server.dir, 'data')], { encoding: 'utf8' }));

test('the conversations of the folder, the newest first, found and live', async () => {
  await settled('older', 'tokens=2');
  await settled('newer', 'status=400');
  await browser.look(`${server.base}/#/conversations`, async (page) => {
    await shows(page, '.conversations > li .title', 'tokens=2');
    assert.deepEqual((await texts(page, '.conversations .title')).map((t) => t.replace(/\s+/g, ' ')), ['status=400failed: model_failed', 'tokens=2completed']);
    await settled('newest', 'tokens=3');
    await page.waitForFunction(() => document.querySelector('.conversations .title')?.textContent.startsWith('tokens=3'));
    await shot(page, 'conversations');
    await page.type('input[type=search]', 'newer');
    await page.waitForFunction(() => document.querySelectorAll('.conversations > li').length === 1);
    await shows(page, '[role=status]', '1 of 3');
    await page.$eval('input[type=search]', (e) => { e.value = ''; e.dispatchEvent(new Event('input', { bubbles: true })); });
    await shows(page, '[role=status]', '3 conversations');
    await page.select('.choices label:nth-child(3) select', 'failed');
    await shows(page, '[role=status]', '1 of 3');
    await page.select('.choices label:nth-child(4) select', '3600000');
    await shows(page, '[role=status]', '1 of 3');
    await press(page, '.conversations .title a');
    await shows(page, '.outcome', 'model_failed');
  });
});

test('a timeline is what parley trace prints, with prompts and records, and saved as one file', async () => {
  const id = unique('trace');
  await settled(id, 'tokens=2');
  const submission = await settled(id, 'reasoning=2 tokens=30');
  const timeline = async () => (await fetch(`${server.base}/+console/api/submission?id=${submission}`)).json();
  await until(async () => (await timeline()).requests.length === 1);
  const { source, ...trace } = await until(() => {
    const t = printed('trace', submission);
    return t.state === 'completed' && t;
  });
  const shown = await timeline();
  assert.ok(source);
  assert.deepEqual(shown.trace, trace, 'the tree of the command line');
  const downloads = mkdtempSync(join(tmpdir(), 'console-saved-'));
  try {
    await browser.look(`${server.base}/#/submission/${submission}`, async (page) => {
      await shows(page, '.trace .label', 'turn fake/m1');
      await page.$$eval('.trace summary', (all) => all.at(-1).click());
      await shows(page, '.inside h4', 'Prompt: fake/m1');
      assert.ok((await texts(page, '.inside pre')).some((text) => text.includes('reasoning=2 tokens=30')), 'the prompt is shown');
      await shot(page, 'timeline');
      await page.$$eval('.trace .inside .facts button', (all) => all.at(-1).click());
      await page.waitForFunction(() => !document.querySelector('.toolbar button[disabled]'));
      await page.$$eval('.saved > details > summary', (all) => all.at(-1).click());
      await shows(page, '.saved section pre', 'submission_settled');
      const session = await page.createCDPSession();
      await session.send('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: downloads, browserContextId: page.browserContext().id });
      await page.$$eval('.toolbar button', (all) => all[0].click());
      const name = await until(() => readdirSync(downloads).find((f) => f.endsWith('.html')));
      const html = await until(() => { const text = readFileSync(join(downloads, name), 'utf8'); return text.endsWith('</html>\n') && text; });
      assert.ok(html.includes('reasoning=2 tokens=30') && html.includes('submission_settled'), 'it has everything');
      assert.doesNotMatch(html, /<script|src=|https?:|<link/, 'it needs nothing else');
    });
  } finally {
    rmSync(downloads, { recursive: true, force: true });
  }
});

test('figures are those of parley stats', async () => {
  await settled(unique('figures'), 'tokens=4');
  const { source, ...stats } = await until(() => {
    const now = printed('stats');
    // The file of events is written shortly after the events.
    const { queued, completed, failed, aborted } = now.submissions;
    return queued === sent && completed + failed + aborted === sent && now;
  });
  assert.ok(source);
  assert.deepEqual(await (await fetch(`${server.base}/+console/api/figures`)).json(), stats);
  const { source: other, agent, ...helper } = printed('stats', '--agent', 'helper');
  assert.deepEqual(await (await fetch(`${server.base}/+console/api/figures?agent=helper`)).json(), helper);
  await browser.look(`${server.base}/#/figures`, async (page) => {
    await page.waitForSelector('.figures');
    const rows = await page.$$eval('.figures tr', (all) => all.map((r) => [...r.cells].map((c) => c.textContent)));
    const tiles = await texts(page, '.tiles li');
    assert.ok(tiles[0].startsWith(`Messages${stats.submissions.queued}`), tiles[0]);
    assert.equal((await page.$$('.charts svg .mark.good')).length, stats.hours.filter((h) => h.completed > 0).length);
    assert.deepEqual(rows.find((r) => r[1] === 'fake/m1').slice(2, 3), [String(stats.models[0].turns)]);
    await shot(page, 'figures');
  });
});

test('what is not there is said', async () => {
  await browser.look(`${server.base}/#/submission/sub_nothing`, async (page) => {
    await shows(page, '[role=alert]', 'There is no such submission.');
  }, { tolerated: /404/ });
});

test('the trace of a chat is one click away', async () => {
  const id = unique('click');
  await settled(id, 'tokens=2');
  await browser.look(chat(server, id), async (page) => {
    await page.waitForSelector('.message.user .actions a');
    await page.$eval('.message.user .actions a', (a) => a.click());
    await shows(page, '.trace .label', 'turn fake/m1');
  });
});
