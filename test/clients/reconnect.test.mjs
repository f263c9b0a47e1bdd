// Broken connections: observations continue without gaps and without
// duplicates.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Proxy } from './proxy.mjs';
import { conversation, observing, release, sameAsHistory, say, served, unique, within, words } from './suite.mjs';

async function behindProxy(test) {
  const proxy = await Proxy.before(served.completions);
  try {
    await test(proxy);
  } finally {
    await proxy.close();
  }
}

const behind = (proxy, id = unique()) => conversation(proxy.mount, { id, fetch: proxy.fetch });

for (const live of ['sse', 'long-poll']) {
  test(`connections break in the middle of a response: ${live}`, () =>
    behindProxy(async (proxy) => {
      const id = unique();
      const direct = conversation(served.completions, { id });
      const gate = unique('gate');
      const admission = await say(direct, `tokens=5 hold=${gate}-1 tokens=5 hold=${gate}-2 tokens=5 hold=${gate}-3 tokens=5`);
      await observing(behind(proxy, id), { live }, async (watcher) => {
        for (const step of [1, 2, 3]) {
          await watcher.untilText(words(5 * step));
          const before = proxy.connections;
          proxy.drop();
          await release(`${gate}-${step}`);
          await watcher.untilText(words(5 * (step + 1)));
          assert.ok(proxy.connections > before, 'the client reconnected');
        }
        await watcher.untilSettled(admission);
        await sameAsHistory(watcher, direct);
      });
    }));

  test(`the server cannot be reached for a while: ${live}`, () =>
    behindProxy(async (proxy) => {
      const id = unique();
      const direct = conversation(served.completions, { id });
      const gate = unique('gate');
      const admission = await say(direct, `tokens=5 hold=${gate} tokens=5`);
      await observing(behind(proxy, id), { live }, async (watcher) => {
        await watcher.untilText(words(5));
        proxy.down = true;
        proxy.drop();
        // The rest of the response is written while no client is connected.
        await release(gate);
        await direct.wait(admission);
        proxy.down = false;
        await watcher.untilSettled(admission);
        await sameAsHistory(watcher, direct);
      });
    }));

  test(`connections break anywhere in a response: ${live}`, async () => {
    const id = unique();
    const direct = conversation(served.completions, { id });
    await direct.wait(await say(direct, 'Hello'));
    const gate = unique('gate');
    const admission = await say(direct, `hold=${gate} tokens=20`);
    // Each position has an observer of its own; the response starts once all wait.
    let missing = cuts[live].length;
    const observer = (cut) =>
      behindProxy((proxy) =>
        observing(behind(proxy, id), { live }, async (watcher) => {
          await watcher.until(({ phase }) => phase === 'live', 'the live phase');
          proxy.cut = cut;
          const again = proxy.request(`live=${live}`);
          proxy.drop();
          await within(again, 'the next connection');
          if (--missing === 0) await release(gate);
          await watcher.untilSettled(admission);
          assert.equal(proxy.cut, undefined, 'the connection was broken');
          await sameAsHistory(watcher, direct);
        }),
      );
    await Promise.all(cuts[live].map(observer));
  });
}

/** In the status line, the headers, the first bytes, a name, a number, and at the end. */
const cuts = {
  sse: [
    { after: 'HTTP/1.1', bytes: 2 },
    { after: 'text/event-stream', bytes: 5 },
    { after: 'event: data', bytes: 4 },
    { after: 'message-delta', bytes: 7 },
    { after: '"position"', bytes: 14 },
    { after: 'event: control', bytes: 30 },
    { after: 'streamNextOffset', bytes: 40 },
    { after: 'submission-settled', bytes: 18 },
  ],
  'long-poll': [
    { after: 'HTTP/1.1', bytes: 2 },
    { after: 'Stream-Next-Offset', bytes: 30 },
    { after: 'message-delta', bytes: 7 },
    { after: '"position"', bytes: 14 },
    { after: 'submission-settled', bytes: 18 },
  ],
};

test('a wait continues after a broken connection', () =>
  behindProxy(async (proxy) => {
    const client = behind(proxy);
    const gate = unique('gate');
    const admission = await say(client, `tokens=5 hold=${gate} tokens=5`);
    assert.equal(admission.streamUrl, client.url, 'the stream is at the address the client used');
    let text = '';
    await client.wait(admission, {
      onEvent: async (chunk) => {
        if (chunk.type !== 'message-delta') return;
        text += chunk.delta;
        if (text === words(5)) {
          proxy.drop();
          await release(gate);
        }
      },
    });
    assert.equal(text, words(10));
  }));
