// A page with a scripted server: long conversations, slow networks, many conversations; and
// accessibility, checked by axe.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';

import { Browser, chat, post, Server, shot, shows, texts, unique, until } from './harness.mjs';

const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const pairs = 1_000;
/** The last batch of the conversation when it is read. */
const first = 5_000;

/** The text of a reply in the style of a model. */
const reply = (n) => `Reply ${n} with **words**, \`code\` and a [link](https://example.com/${n}).\n\n- one\n- two\n\n\`\`\`go\nfunc f${n}() {}\n\`\`\``;
const offset = (n) => `0000000000000000_${String(n).padStart(16, '0')}`;
const text = (words) => [{ type: 'text', text: words, state: 'done' }];

const long = () => ({
  v: 1, conversationId: 'conv_1', offset: offset(first),
  messages: Array.from({ length: pairs }, (_, i) => [
    { id: `u${i}`, role: 'user', purpose: 'user', display: 'visible', submissionId: `s${i}`, parts: text(`Question ${i}`) },
    { id: `a${i}`, role: 'assistant', purpose: 'assistant', display: 'visible', submissionId: `s${i}`, parts: text(reply(i)) },
  ]).flat(),
  settlements: Array.from({ length: pairs }, (_, i) => ({ submissionId: `s${i}`, outcome: 'completed' })),
});
const many = () => ({
  found: 500, all: 500,
  conversations: Array.from({ length: 500 }, (_, i) => ({
    agent: 'helper', id: `c${i}`, title: `Conversation ${i}`, begun: '2026-01-01T00:00:00Z', active: '2026-01-01T00:00:00Z', admitted: 1, input: 1, output: 1, cost: 0,
    submissions: [{ id: `sub_${i}`, title: 'x', at: '2026-01-01T00:00:00Z', state: 'completed', totalMs: 5, input: 1, output: 1, cost: 0 }],
  })),
});

let server, scripted, browser, stream;

before(async () => {
  [server, browser] = await Promise.all([new Server().start(), Browser.start()]);
  scripted = createServer(async (request, response) => {
    const json = (value) => response.setHeader('Content-Type', 'application/json').end(JSON.stringify(value));
    if (request.url === '/agents/helper/large') return json(long());
    if (request.url.startsWith('/+console/api/conversations')) return json(many());
    if (request.url.startsWith('/+console/api/conversation?')) return json({ ...many().conversations[0], id: 'large' });
    if (request.url.startsWith('/agents/helper/large?')) {
      const from = new URL(request.url, scripted.base).searchParams.get('offset');
      stream = response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      stream.write(`event: control\ndata:{"streamNextOffset":"${from}","upToDate":true}\n\n`);
      // Chunks sent before a client follows, or follows again.
      for (const text of told.slice(Number(from.split('_')[1]) - first)) stream.write(text);
      return;
    }
    const answer = await fetch(server.base + request.url);
    response.writeHead(answer.status, { 'Content-Type': answer.headers.get('Content-Type'), 'Content-Security-Policy': answer.headers.get('Content-Security-Policy') ?? '' });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise((resolve) => scripted.listen(0, '127.0.0.1', resolve));
  scripted.base = `http://127.0.0.1:${scripted.address().port}`;
});
after(async () => {
  await browser?.close();
  scripted?.closeAllConnections();
  scripted?.close();
  await server?.close();
});

/** Sends a batch of chunks to all followers. */
const told = [];
function tell(...chunks) {
  const batch = first + told.length + 1;
  const data = chunks.map((c, index) => ({ conversationId: 'conv_1', position: { batch, index }, ...c }));
  told.push(`event: data\ndata:${JSON.stringify(data)}\n\nevent: control\ndata:{"streamNextOffset":"${offset(batch)}"}\n\n`);
  stream?.write(told.at(-1));
}

test('2,000 messages: few are in the page, the end stays in sight, and the beginning is there', async (t) => {
  await browser.look(chat(scripted, 'large'), async (page) => {
    await shows(page, '.message.assistant', `Reply ${pairs - 1} `);
    const usable = await page.evaluate(() => performance.now());
    const drawn = async () => page.$$eval('.row', (all) => all.length);
    assert.ok((await drawn()) < 80, 'few rows are drawn');
    const atEnd = () => page.$eval('.list', (l) => l.scrollHeight - l.scrollTop - l.clientHeight < 2);
    await until(atEnd);

    // A reply of 100 words a second; each frame renders the new ones.
    await page.evaluate(() => {
      window.long = [];
      new PerformanceObserver((l) => window.long.push(...l.getEntries().map((e) => e.duration))).observe({ type: 'longtask' });
      window.frames = 0;
      const count = () => { window.frames++; requestAnimationFrame(count); };
      requestAnimationFrame(count);
    });
    const before = await page.metrics();
    tell({ type: 'message-started', messageId: 'new', submissionId: 'snew' });
    const words = 200;
    for (let i = 1; i <= words; i++) {
      tell({ type: 'message-delta', messageId: 'new', kind: 'text', delta: i % 20 === 0 ? `word${i}\n\n` : `word${i} ` });
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await shows(page, '.message.assistant', `word${words}`);
    await until(atEnd);
    const now = await page.metrics();
    const { frames, tasks } = await page.evaluate(() => ({ frames: window.frames, tasks: window.long }));
    t.diagnostic(`usable after ${usable.toFixed(0)} ms; heap ${(now.JSHeapUsedSize / 1e6).toFixed(1)} MB; script ${(((now.ScriptDuration - before.ScriptDuration) * 1000) / frames).toFixed(2)} ms a frame over ${frames} frames, ${tasks.length} long tasks`);
    await shot(page, 'large');

    // A reader further up keeps the position while text is added below.
    await page.$eval('.list', (l) => l.scrollTo({ top: 0 }));
    await shows(page, '.message.user:first-of-type', 'Question');
    await page.waitForFunction(() => document.querySelector('.row')?.textContent.includes('Question 0'));
    const top = await page.$eval('.list', (l) => l.scrollTop);
    tell({ type: 'message-delta', messageId: 'new', kind: 'text', delta: 'after all ' });
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    assert.equal(await page.$eval('.list', (l) => l.scrollTop), top);
    assert.ok((await drawn()) < 80);
    await page.$eval('.toend', (b) => b.click());
    await shows(page, '.message.assistant', 'after all');
    await until(atEnd);
    // In the middle, by the keyboard.
    await page.focus('.list');
    await page.keyboard.press('Home');
    await page.waitForFunction(() => document.querySelector('.row')?.textContent.includes('Question 0'));
  });
});

test('500 conversations are listed', async () => {
  await browser.look(`${scripted.base}/#/conversations`, async (page) => {
    await page.waitForFunction(() => document.querySelectorAll('.conversations > li').length === 500);
    assert.equal((await texts(page, '.conversations .title a')).at(-1), 'Conversation 499');
  });
});

test('a slow network', async () => {
  await browser.look(chat(server, unique('slow')), async (page) => {
    await page.waitForSelector('.composer');
    await page.emulateNetworkConditions({ download: 6_000, upload: 6_000, latency: 150 });
    await page.focus('textarea');
    await page.keyboard.sendCharacter('tokens=400');
    await page.keyboard.press('Enter');
    await shows(page, '.message.user', 'tokens=400');
    await shows(page, '.message.assistant', 'w400');
    assert.equal((await texts(page, '.message.assistant .md')).join('').trim().split(' ').length, 400, 'every word once');
  }, { tolerated: /404/ });
});

test('axe finds nothing serious on any page, light, dark and narrow, and nothing is wider than a narrow one', async () => {
  const id = unique('axe');
  const { submissionId } = await post(server, id, 'reasoning=3 say="# Title\\n\\n**bold** `code` [a link](https://example.com)\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |\\n\\n```go\\nfunc f() {}\\n```"');
  await post(server, id, 'status=400');
  const pages = {
    '#/': '.cards', [new URL(chat(server, id)).hash]: '.outcome', [new URL(chat(server, unique('order'), 'booked')).hash]: '.initial',
    '#/conversations': '.conversations li', [`#/submission/${submissionId}`]: '.trace', '#/figures': '.figures',
  };
  for (const [hash, ready] of Object.entries(pages)) {
    await browser.look(`${server.base}/${hash}`, async (page) => {
      await page.waitForSelector(ready);
      if (ready === '.outcome') await shot(page, 'chat');
      await page.evaluate(axe);
      for (const [scheme, width] of [['light', 1280], ['dark', 1280], ['light', 360]]) {
        await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
        await page.setViewport({ width, height: 740 });
        await page.waitForFunction((w) => innerWidth === w, {}, width);
        const beyond = await page.evaluate(() => [...document.querySelectorAll('.page, .chat, main, .list, body')].filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.outerHTML.slice(0, 100)));
        assert.deepEqual(beyond, [], `${hash}, ${width} wide`);
        const found = await page.evaluate(async () => {
          const { violations } = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa'] });
          return violations.filter((v) => ['serious', 'critical'].includes(v.impact)).map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html.slice(0, 160)} ${n.failureSummary}`).join(' ; ')}`);
        });
        assert.deepEqual(found, [], `${hash}, ${scheme}, ${width} wide`);
      }
    }, { tolerated: /404/ });
  }
});
