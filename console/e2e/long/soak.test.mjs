// The slow tests of "make soak": many kills of a server under an open page, a reply of minutes, and many
// hostile messages.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { Browser, chat, post, say, Server, shows, texts, unique, until, words } from '../harness.mjs';

const seed = Number(process.env.CONSOLE_SEED || '1');
const deaths = 25;
const minutes = 3;
const messages = 150;

/** The same numbers for the same seed. */
let state = seed;
const below = (n) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor((state / 2 ** 32) * n);
};
const one = (of) => of[below(of.length)];

let browser;
before(async () => {
  browser = await Browser.start();
});
after(() => browser?.close());

test(`${deaths} deaths of a server in mid-word, seed ${seed}`, async () => {
  const server = await new Server().start();
  try {
    await browser.look(chat(server, 'killed'), async (page) => {
      for (let i = 1; i <= deaths; i++) {
        await say(page, `pace=5ms tokens=200 note=${i}`);
        await shows(page, '.message.user', `note=${i}`);
        // The kill may happen before the first word, and between any two.
        const seen = below(150);
        await page.waitForFunction((n, word) => [...document.querySelectorAll('.message.user')].at(-1).textContent.includes(`note=${n}`)
          && (word === 'w0' || [...document.querySelectorAll('.message.assistant')].at(-1)?.textContent.includes(word)), {}, i, `w${seen}`);
        await server.kill();
        await server.start();
        await until(async () => (await (await fetch(`${server.base}/agents/helper/killed`)).json()).settlements?.length === i);
        await page.waitForFunction(() => !document.querySelector('button.stop') && !document.querySelector('.pending'));
        const shown = (await texts(page, '.message.assistant .md')).at(-1);
        const { messages: said, settlements } = await (await fetch(`${server.base}/agents/helper/killed`)).json();
        assert.equal(settlements.at(-1).outcome, 'completed');
        assert.equal(said.filter((m) => m.role === 'user').length, i, 'every message was admitted once');
        const recorded = said.findLast((m) => m.role === 'assistant').parts.filter((p) => p.type === 'text').at(-1).text;
        assert.equal(shown.trim(), recorded.trim(), `round ${i}: the page shows what is recorded`);
      }
    }, { tolerated: /404|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|503/ });
  } finally {
    await server.close();
  }
});

test(`a reply of ${minutes} minutes at 100 words a second`, async (t) => {
  const server = await new Server().start();
  try {
    await browser.look(chat(server, 'endless'), async (page) => {
      const session = await page.createCDPSession();
      const heap = async () => {
        await session.send('HeapProfiler.collectGarbage');
        return (await page.metrics()).JSHeapUsedSize / 1e6;
      };
      await page.waitForSelector('.composer');
      const [began, before] = [await heap(), await page.metrics()];
      const count = minutes * 6_000;
      await say(page, `pace=10ms tokens=${count}`);
      for (let n = 1_000; n <= count; n += 1_000) await shows(page, '.message.assistant', `w${n}`);
      await page.waitForFunction(() => !document.querySelector('button.stop'));
      const [ended, after] = [await heap(), await page.metrics()];
      const share = (100 * (after.ScriptDuration - before.ScriptDuration)) / (after.Timestamp - before.Timestamp);
      t.diagnostic(`heap ${began.toFixed(1)} to ${ended.toFixed(1)} MB, script ${share.toFixed(1)} % of the time`);
      assert.ok(ended < began + 30, `the heap grew from ${began} to ${ended} MB`);
      assert.equal((await texts(page, '.message.assistant .md')).at(-1).trim(), words(count));
    }, { tolerated: /404/ });
  } finally {
    await server.close();
  }
});

test(`${messages} hostile messages, seed ${seed}`, async () => {
  const server = await new Server().start();
  const pieces = [
    '<img src=x onerror="window.hit=1">', '<script>window.hit=1</script>', '<svg onload=window.hit=1>', '<iframe srcdoc="<script>parent.hit=1</script>">', '<style>*{display:none}</style>', '<base href=//evil.example/>', '<form action=//evil.example>', '<!--', '-->', '<![CDATA[', '<a href="javascript:window.hit=1">x</a>',
    '[a](javascript:window.hit=1)', '[b](data:text/html,<script>window.hit=1</script>)', '![c](//evil.example/c.png)', '![d](https://evil.example/d.png "t")', '[e]: javascript:window.hit=1', '[e]', '<javascript:window.hit=1>', '<https://evil.example/>', 'https://evil.example/?x=<script>', '&lt;script&gt;', '&#106;avascript:', '[f](https://user@evil.example\\@good.example)',
    '`', '```', '~~~', '| a | b |\n|--|--|\n', '> ', '- ', '1. ', '# ', '**', '_', '~~', '\n', '\n\n', '\t', ' ', '    ', '\\', '\u202e', '\u0000', '\ud83d\ude00', 'words', '"', "'", '=', '(', ')', '[', ']', '{', '}',
  ];
  try {
    await browser.look(chat(server, unique('hostile')), async (page) => {
      const id = decodeURIComponent(page.url().split('/').at(-1));
      for (let i = 1; i <= messages; i++) {
        const text = Array.from({ length: 5 + below(60) }, () => one(pieces)).join(below(2) ? '' : ' ');
        await post(server, id, `say=${JSON.stringify(`${text}\n\n\n~~~\n\`\`\`\nthe end ${i}`)}`);
        await shows(page, '.message.assistant', `the end ${i}`);
        const found = await page.evaluate(() => ({
          hit: window.hit ?? 0, elements: document.querySelectorAll('.message :is(img, iframe, script, style, form, base, object, embed, svg, link, meta)').length,
          links: [...document.querySelectorAll('.message a')].map((a) => a.href).filter((h) => !/^(https?|mailto):|^blob:/.test(h) && !h.startsWith(`${location.origin}/#`)),
          attributes: [...document.querySelectorAll('.message .md *')].flatMap((e) => [...e.attributes].map((a) => a.name)).filter((n) => /^on|^src|^style$|^action$/.test(n)),
        }));
        assert.deepEqual(found, { hit: 0, elements: 0, links: [], attributes: [] }, JSON.stringify(text));
      }
    }, { tolerated: /404/ });
  } finally {
    await server.close();
  }
});
