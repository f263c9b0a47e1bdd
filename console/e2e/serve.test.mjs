import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, chat, config, press, say, Server, shot, shows, texts, until, words } from './harness.mjs';

let server, browser;
before(async () => {
  const text = (listen) => `${config(listen)}console: true\nauth: {bearerEnv: CONSOLE_TOKEN}\n`;
  [server, browser] = await Promise.all([new Server(['serve'], text).start({ CONSOLE_TOKEN: 'the-token' }), Browser.start()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function unlock(page, token) {
  await page.waitForSelector('input[type=password]');
  await page.$eval('input[type=password]', (i) => i.select());
  await page.keyboard.sendCharacter(token);
  await page.keyboard.press('Enter');
}

test('a token is asked for, a wrong one is refused, and a reload asks again', async () => {
  await browser.look(chat(server, 'locked'), async (page) => {
    await unlock(page, 'another');
    await shows(page, '.problem', 'does not accept this token');
    await shot(page, 'token');
    await unlock(page, 'the-token');
    // A dropped file is sent, and fetched again, with the token.
    await page.waitForSelector('.composer');
    await page.evaluate(async () => {
      const canvas = new OffscreenCanvas(30, 20);
      canvas.getContext('2d').fillRect(0, 0, 30, 20);
      const full = new DataTransfer();
      full.items.add(new File([await canvas.convertToBlob()], 'black.png', { type: 'image/png' }));
      document.querySelector('.composer').dispatchEvent(new DragEvent('drop', { dataTransfer: full, bubbles: true }));
    });
    await shows(page, '.composer .images li', 'black.png');
    await say(page, 'tokens=3');
    await shows(page, '.message.assistant', words(3));
    await page.waitForFunction(() => document.querySelector('.message img')?.naturalWidth === 30);
    assert.ok(!(await texts(page, '.side a')).includes('Conversations'), 'serve has the chat alone');
    assert.equal(await page.$('.message .actions a'), null);
    await page.reload();
    await page.waitForSelector('input[type=password]');
    assert.doesNotMatch(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie), /the-token/, 'it is kept nowhere');
  }, { tolerated: /401|404/ });
});

test('what dev tells is not there', async () => {
  for (const name of ['conversation', 'conversations', 'figures', 'records', 'submission']) {
    const response = await fetch(`${server.base}/+console/api/${name}`, { headers: { Authorization: 'Bearer the-token' } });
    assert.equal(response.status, 404);
    assert.equal((await response.json()).error.type, 'route_not_found');
  }
});

test('a link to a page of dev leads to the start', async () => {
  await browser.look(`${server.base}/#/figures`, async (page) => {
    await unlock(page, 'the-token');
    await shows(page, 'h1', 'Talk to an agent');
    await press(page, '.cards button');
    await page.waitForSelector('.composer');
    await until(() => page.url().includes('#/chat/'));
  }, { tolerated: /401/ });
});
