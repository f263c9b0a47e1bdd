import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, chat, over, post, press, release, say, Server, shot, shows, texts, unique, until, words } from './harness.mjs';

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([new Server().start(), Browser.start()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const reply = '.message.assistant';

test('a reply comes word by word, by the keyboard alone', async () => {
  await browser.look(`${server.base}/`, async (page) => {
    await page.waitForSelector('.cards button');
    assert.equal(await page.title(), 'Parley');
    await shot(page, 'start');
    // To the first agent, by Tab.
    for (let i = 0; i < 12 && !(await page.evaluate(() => document.activeElement.closest('.cards li')?.textContent.includes('helper') ?? false)); i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    const gate = unique('gate');
    await say(page, `reasoning=3 tokens=5 hold=${gate} tokens=5`);
    await shows(page, reply, words(5));
    assert.ok(await page.$('button.stop'), 'what is owed can be stopped');
    await release(gate);
    await shows(page, reply, words(10));
    await over(page);
    assert.equal(await page.$eval(`${reply} details.fold`, (d) => d.open), false, 'reasoning is folded');
    assert.deepEqual(await texts(page, '.pending'), []);
    assert.equal((await texts(page, '.message.user')).length, 1);
    // The reloaded page is the same.
    await page.reload();
    await shows(page, reply, words(10));
  });
});

test('a server that is killed in mid-word loses nothing and repeats nothing', async () => {
  const own = await new Server().start();
  try {
    await browser.look(chat(own, 'killed'), async (page) => {
      const gate = unique('gate');
      await say(page, `tokens=5 hold=${gate} tokens=5`);
      await shows(page, reply, words(5));
      await own.kill();
      await shows(page, '.connection', 'Reconnecting');
      // Messages sent now wait for the server.
      await say(page, 'tokens=3');
      await shows(page, '.pending', 'Not sent yet');
      await release(gate);
      await own.start();
      await shows(page, '.connection', 'Live');
      await page.waitForFunction((n) => document.querySelectorAll('.message.assistant').length === n && !document.querySelector('.pending') && !document.querySelector('button.stop'), {}, 2);
      const history = await (await fetch(`${own.base}/agents/helper/killed`)).json();
      const said = history.messages.filter((m) => m.display === 'visible').map((m) => m.parts.map((p) => p.text).join(''));
      const drawn = await texts(page, '.message .md, .message .plain');
      assert.deepEqual(drawn.join(' ').replace(/\s+/g, ' '), said.join(' ').replace(/\s+/g, ' '), 'the page shows what is recorded');
      assert.equal(said.filter((text) => text === 'tokens=3').length, 1, 'it was admitted once');
    }, { tolerated: /404|ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY|ERR_CONNECTION_RESET|503/ });
  } finally {
    await own.close();
  }
});

test('a reply shows that it is under way before its first word, and messages that wait behind it', async () => {
  await browser.look(chat(server, unique('working')), async (page) => {
    await page.waitForSelector('.composer textarea');
    await page.waitForFunction(() => document.activeElement?.matches('.composer textarea'));
    const gate = unique('gate');
    await page.keyboard.sendCharacter(`hold=${gate} tokens=5`);
    await page.keyboard.press('Enter');
    await shows(page, '.working', 'Working');
    await say(page, 'tokens=2');
    await shows(page, '.message.user.queued', 'tokens=2');
    assert.equal((await texts(page, '.message.user.queued')).length, 1);
    await shot(page, 'working');
    await release(gate);
    await over(page);
    await shows(page, '.told', 'fake/m1');
    await shows(page, '.told', 'tokens');
    assert.deepEqual(await texts(page, '.working, .queued'), []);
    assert.equal((await texts(page, '.message header time')).length, 4);
    assert.ok(await page.evaluate(() => document.activeElement?.matches('.composer textarea')), 'the keyboard stays with the composer');
    await shot(page, 'told');
  }, { tolerated: /404/ });
});

test('what was sent is there once, whether its answer is lost or the tab reloaded before there is one', async () => {
  const id = unique('once');
  await browser.look(chat(server, id), async (page) => {
    await page.waitForSelector('.composer');
    await page.setRequestInterception(true);
    let posts = 0;
    page.on('request', async (request) => {
      if (request.method() !== 'POST') return request.continue();
      posts++;
      if (posts === 1) {
        const answer = await fetch(request.url(), { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: request.postData() });
        assert.equal(answer.status, 202);
        return request.abort('connectionreset');
      }
      if (posts !== 3) return request.continue(); // The third is never answered.
    });
    await say(page, 'tokens=2');
    await shows(page, reply, words(2));
    await until(() => posts === 2);
    await over(page); // Otherwise the reloaded tab would resend it too.
    await say(page, 'tokens=4');
    await until(() => posts === 3);
    await page.reload();
    await shows(page, reply, words(4));
    assert.equal(posts, 4);
    assert.deepEqual(await texts(page, '.message.user .plain'), ['tokens=2', 'tokens=4']);
    const { messages } = await (await fetch(`${server.base}/agents/helper/${id}`)).json();
    assert.equal(messages.filter((m) => m.role === 'user').length, 2);
  }, { tolerated: /404|ERR_CONNECTION_RESET/ });
});

test('abort, and a failure with its remedy', async () => {
  await browser.look(chat(server, unique('abort')), async (page) => {
    await say(page, `tokens=3 hold=${unique('gate')}`);
    await shows(page, reply, words(3));
    await press(page, 'button.stop');
    await shows(page, '.outcome', 'Stopped');
    await say(page, 'status=400');
    await shows(page, '.outcome', 'model_failed');
    await shows(page, '.outcome', 'Check the API key');
    await shows(page, '.outcome .cause', 'these are the vendor');
    await shot(page, 'outcomes');
  }, { tolerated: /404/ });
});

test('a refused request is shown with each sentence once', async () => {
  await browser.look(chat(server, 'x'.repeat(600)), async (page) => {
    await shows(page, '.connection.refused', 'Refused: ');
    const text = await page.$eval('.connection.refused', (e) => e.textContent);
    const sentences = text.replace('Refused: ', '').split(/(?<=\.) /);
    assert.deepEqual(sentences, [...new Set(sentences)], text);
    assert.match(text, /bytes/, 'the sentence is the specific one');
  }, { tolerated: /400/ });
});

test('initial data is a form, and what is wrong with it is said', async () => {
  await browser.look(chat(server, unique('order'), 'booked'), async (page) => {
    await page.waitForSelector('.initial input[type=number]');
    await say(page, 'tokens=2', '.composer textarea');
    await shows(page, '.problem', 'order is missing');
    await page.type('.initial input[type=number]', '4711');
    await shot(page, 'initial');
    await press(page, 'button[type=submit]');
    await shows(page, reply, words(2));
    assert.equal(await page.$('.initial'), null);
  }, { tolerated: /404/ });
});

test('hostile words are text, and nothing is fetched for them', async () => {
  const hostile = [
    '<img src=x onerror="window.hit=1"><script>window.hit=1</script>', '![pixel](https://evil.example/p.png)', '[click](javascript:window.hit=1)',
    '<style>*{display:none}</style>', '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>', `[${'a'.repeat(5000)}](https://evil.example/)`, '`'.repeat(3000), '> '.repeat(400) + 'deep', '[' .repeat(2000),
  ].join('\n\n');
  await browser.look(chat(server, unique('hostile')), async (page) => {
    await say(page, `say=${JSON.stringify(`${hostile}\n\nthe end`)}`);
    await shows(page, reply, 'the end');
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.$$eval('.message img, .message iframe, .message script, .message style', (all) => all.length), 0);
  }, { tolerated: /404/ });
});

test('images that are dropped and pasted are sent and shown', async () => {
  await browser.look(chat(server, unique('image')), async (page) => {
    await page.waitForSelector('.composer');
    const give = (how, name, width) => page.evaluate(async (how, name, width) => {
      const canvas = new OffscreenCanvas(width, 90);
      const context = canvas.getContext('2d');
      context.fillStyle = how === 'drop' ? '#2a6f6b' : '#8a5a00';
      context.fillRect(0, 0, width, 90);
      const transfer = new DataTransfer();
      transfer.items.add(new File([await canvas.convertToBlob()], name, { type: 'image/png' }));
      if (how === 'drop') transfer.items.add(new File(['x'], 'notes.txt', { type: 'text/plain' }));
      const init = { bubbles: true, cancelable: true };
      if (how === 'drop') document.querySelector('.composer').dispatchEvent(new DragEvent('drop', { ...init, dataTransfer: transfer }));
      else document.querySelector('textarea').dispatchEvent(new ClipboardEvent('paste', { ...init, clipboardData: transfer }));
    }, how, name, width);
    await give('drop', 'dropped.png', 140);
    await shows(page, '.composer .images li', 'dropped.png');
    await shows(page, '.composer .problem', 'notes.txt is no image');
    await give('paste', 'pasted.png', 70);
    await shows(page, '.composer .images li', 'pasted.png');
    await shot(page, 'images-to-send');
    await page.evaluate(() => {
      const transfer = new DataTransfer();
      for (let i = 3; i <= 17; i++) transfer.items.add(new File(['x'], `${i}.png`, { type: 'image/png' }));
      document.querySelector('.composer').dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: transfer }));
    });
    await shows(page, '.composer .problem', '17.png is left out');
    for (let n = 16; n > 2; n--) {
      await page.waitForFunction((count) => document.querySelectorAll('.composer .images li').length === count, {}, n);
      await page.$$eval('.composer .images button', (all) => all.at(-1).click());
    }
    await say(page, 'tokens=1');
    await shows(page, reply, 'w1');
    await page.waitForFunction(() => [...document.querySelectorAll('.message img')].map((i) => i.naturalWidth).join() === '140,70');
    await shot(page, 'images');
  }, { tolerated: /404/ });
});

test('code is copied as it stands', async () => {
  await browser.look(chat(server, unique('code')), async (page) => {
    const code = 'if (a < b && c) {\n\treturn "x";\n}';
    await say(page, `say=${JSON.stringify(`Here:\n\n\`\`\`js\n${code}\n\`\`\`\n\nthe end`)}`);
    await shows(page, reply, 'the end');
    await page.browserContext().overridePermissions(server.base, ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write']);
    await over(page);
    // The confirmation disappears.
    await page.$eval(`${reply} .code button`, (b) => {
      window.said = [];
      new MutationObserver(() => window.said.push(b.textContent)).observe(b, { characterData: true, childList: true, subtree: true });
    });
    await page.click(`${reply} .code button`);
    await page.waitForFunction(() => window.said.includes('Copied'));
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), code);
  }, { tolerated: /404/ });
});

test('Enter that ends a character of several keys sends nothing', async () => {
  await browser.look(chat(server, unique('ime')), async (page) => {
    await page.waitForSelector('textarea');
    await page.focus('textarea');
    const session = await page.createCDPSession();
    await session.send('Input.imeSetComposition', { text: 'に', selectionStart: 1, selectionEnd: 1 });
    await page.evaluate(() => document.querySelector('textarea').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, keyCode: 229, bubbles: true, cancelable: true })));
    assert.deepEqual(await texts(page, '.message.user'), []);
    await session.send('Input.insertText', { text: '日本' });
    assert.equal(await page.$eval('textarea', (t) => t.value), '日本');
    await page.keyboard.press('Enter');
    await shows(page, '.message.user', '日本');
    // Right-to-left text is aligned right.
    await say(page, 'مرحبا بالعالم');
    await shows(page, '.message.user', 'مرحبا');
    await page.waitForFunction(() => !document.querySelector('.pending') && getComputedStyle([...document.querySelectorAll('.message.user .plain')].at(-1)).direction === 'rtl');
  }, { tolerated: /404/ });
});

test('two conversations side by side', async () => {
  await post(server, 'left', 'tokens=3');
  await post(server, 'right', 'tokens=6');
  const both = `${chat(server, 'left')}/${encodeURIComponent('/agents/helper')}/right`;
  await browser.look(both, async (page) => {
    await page.waitForFunction(() => document.querySelectorAll('.chat').length === 2);
    await shows(page, '.chat:nth-child(1) .message.assistant', words(3));
    await shows(page, '.chat:nth-child(2) .message.assistant', words(6));
    await shot(page, 'beside');
    await press(page, '.chat:nth-child(1) .bar button');
    await page.waitForFunction(() => document.querySelectorAll('.chat').length === 1);
    await shows(page, reply, words(6));
  });
});
