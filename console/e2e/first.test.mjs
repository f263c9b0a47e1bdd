// The first steps of a new user.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, test } from 'node:test';

import { Browser, over, press, Server, shot, shows, texts } from './harness.mjs';

let browser;
before(async () => {
  browser = await Browser.start();
});
after(() => browser?.close());

test('an empty folder has the demo agent, and says how to add one', async () => {
  const demo = await new Server(['dev', '--data', 'data'], null).start();
  try {
    await browser.look(`${demo.base}/`, async (page) => {
      await shows(page, '.cards', 'assistant');
      await shows(page, 'section', 'Add your own');
      assert.match((await texts(page, 'section pre'))[0], /^agents:/);
      await shot(page, 'first');
      await press(page, '.side a[href="#/conversations"]');
      await shows(page, '[role=status]', 'No conversations yet.');
      await shot(page, 'conversations-none');
      await press(page, '.side a[href="#/figures"]');
      await shows(page, '.page', 'No events');
      await shot(page, 'figures-none');
      await press(page, '.side .home');
      await press(page, '.cards button');
      await page.waitForSelector('.examples button');
      await shot(page, 'chat-new');
      await press(page, '.examples button:nth-child(2)');
      await shows(page, 'details.tool', 'time done');
      await over(page);
      await page.$eval('details.tool', (d) => { d.open = true; });
      await shot(page, 'story');
      const submission = new URL(await page.$eval('.message.user .actions a', (a) => a.href));
      await page.goto(submission.href);
      await shows(page, '.trace', 'tool time');
      // The second call of the model, which is compared with the first.
      await page.waitForFunction(() => document.querySelectorAll('.trace > li').length === 7 && document.querySelector('.trace .state.completed'));
      await page.$$eval('.trace > li > details', (all) => { all.at(-1).open = true; });
      await shows(page, '.trace .inside', 'New since the previous call: 2 messages');
      await shot(page, 'story-timeline');
    }, { tolerated: /404/ });
  } finally {
    await demo.close();
  }
});

test('a mistake that is saved is shown with its file and line until it is mended', async () => {
  const server = await new Server().start();
  try {
    await browser.look(`${server.base}/`, async (page) => {
      await page.waitForSelector('.cards button');
      const good = readFileSync(server.file, 'utf8');
      writeFileSync(server.file, `${good}  third: {mount: [/agents/third], model: fake/m1}\n`);
      const line = good.split('\n').length;
      await shows(page, '.problem.banner', `${server.file}:${line}`);
      await shows(page, '.problem.banner', 'mount');
      await shot(page, 'mistakes');
      writeFileSync(server.file, `${good}  third: {mounts: [/agents/third], model: fake/m1}\n`);
      await page.waitForFunction(() => !document.querySelector('.problem.banner') && document.querySelectorAll('.cards li').length === 3);
    }, { tolerated: /503/ });
  } finally {
    await server.close();
  }
});
