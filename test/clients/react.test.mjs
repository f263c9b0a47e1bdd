// The public React hook, as a user sees it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acting, hide, showing } from './hook.mjs';
import { ask, conversation, eventually, library, ofRole, release, say, served, textOf, token, unique, within, words } from './suite.mjs';

const json = (value) => JSON.parse(JSON.stringify(value));

/** The page must show the transcript, except for the ids of messages sent from it. */
async function sameTranscript(page, client) {
  const { messages, settlements } = await client.history();
  const anonymous = (message) => (message.role === 'user' ? { ...message, id: undefined } : message);
  assert.deepEqual(json(page.agent.messages.map(anonymous)), json(messages.map(anonymous)));
  assert.deepEqual(json(page.agent.settlements), json(settlements));
  assert.equal(page.items().length, messages.length);
}

/** A rendered text only grows. */
function onlyGrew(page) {
  const drawn = page.states.map(({ messages }) => ofRole({ messages }, 'assistant').map(textOf).join('|'));
  for (let i = 1; i < drawn.length; i++) assert.ok(drawn[i].startsWith(drawn[i - 1]), `${drawn[i - 1]} became ${drawn[i]}`);
  return new Set(drawn).size;
}

for (const live of ['sse', 'long-poll']) {
  for (const [format, mount] of Object.entries(served)) {
    test(`a message is rendered at once and answered: ${live}, ${format}`, async () => {
      const client = conversation(mount);
      await showing({ client, live }, async (page) => {
        await page.untilReady();
        await page.untilStatus('idle');
        assert.deepEqual(page.texts(), [], 'the page is empty');
        // The first creates the conversation, the second finds the hook listening.
        for (const n of [0, 1]) {
          const gate = unique('gate');
          const text = `reasoning=2 hold=${gate}-1 tokens=5 hold=${gate}-2 tokens=5`;
          const { sent, item } = page.send(text);
          assert.equal(page.status, 'submitted');
          assert.equal(page.agent.messages.at(-1).id, `local:${n + 1}`);
          await sent;
          await page.untilStatus('streaming');
          await release(`${gate}-1`);
          await page.until(() => page.texts('assistant')[n] === words(5), 'the first words');
          assert.equal(page.status, 'streaming');
          assert.equal(page.texts('user').filter((other) => other === text).length, 1, 'the message appears once');
          await release(`${gate}-2`);
          await page.untilStatus('idle');
          assert.equal(page.texts('assistant')[n], words(10));
          assert.equal(page.items('user')[n], item, 'the element is the one of the first render');
          assert.equal(page.alert, undefined);
          await sameTranscript(page, client);
        }
        assert.ok(onlyGrew(page) >= 5, 'the text arrived in pieces');
      });
    });
  }

  test(`leaving a page and coming back in mid-response: ${live}`, async () => {
    const id = unique();
    const gate = unique('gate');
    const visit = (see) => showing({ client: conversation(served.completions, { id }), live }, see);
    await visit(async (page) => {
      const { sent } = page.send(`tokens=5 hold=${gate}-1 tokens=5 hold=${gate}-2 tokens=5`);
      await sent;
      await page.untilText('assistant', words(5));
    });
    // A new page behaves like a reload: no state of the first one remains.
    await visit(async (page) => {
      await page.untilText('assistant', words(5));
      assert.equal(page.status, 'streaming');
      await release(`${gate}-1`);
      await page.untilText('assistant', words(10));
    });
    await release(`${gate}-2`);
    await visit(async (page) => {
      await page.untilText('assistant', words(15));
      await page.untilStatus('idle');
      await sameTranscript(page, conversation(served.completions, { id }));
    });
  });

  test(`a failed response is an error, until the next message: ${live}`, async () => {
    const client = conversation(served.completions);
    await showing({ client, live }, async (page) => {
      const { sent } = page.send(`status=400 note=${unique()}`);
      await sent;
      await page.untilStatus('error');
      const { settlements } = await client.history();
      assert.equal(settlements[0].outcome, 'failed');
      assert.equal(page.alert, settlements[0].error.message);
      assert.deepEqual(page.agent.failedSends, [], 'the send succeeded');
      page.send('Hello again');
      assert.equal(page.alert, undefined);
      await page.untilText('assistant', 'You said: Hello again');
      await page.untilStatus('idle');
      await sameTranscript(page, client);
    });
  });

  test(`an aborted response ends: ${live}`, async () => {
    const client = conversation(served.messages);
    await showing({ client, live }, async (page) => {
      await page.send('tokens=4 hang=1').sent;
      await page.untilText('assistant', words(5));
      await page.send('waits').sent;
      assert.equal(page.status, 'streaming');
      assert.deepEqual(await client.abort(), { aborted: true });
      await page.untilStatus('idle');
      assert.equal(page.alert, undefined);
      assert.deepEqual(page.texts('assistant'), [words(5)], 'the partial text remains');
      assert.ok(page.texts('user').includes('waits'));
      assert.ok(page.texts('system').length > 0, 'the transcript contains an advisory');
      assert.deepEqual(page.agent.settlements.map(({ outcome }) => outcome), ['aborted', 'aborted']);
      await sameTranscript(page, client);
    });
  });
}

test('several messages at once are queued', async () => {
  const client = conversation(served.completions);
  await ask(client, 'Hello');
  await showing({ client }, async (page) => {
    await page.untilText('assistant', 'You said: Hello');
    const gate = unique('gate');
    const texts = [`tokens=2 hold=${gate}`, 'second', 'third'];
    const sends = [];
    for (const text of texts) sends.push(page.send(text));
    assert.deepEqual(page.texts('user'), ['Hello', ...texts], 'all are rendered at once');
    await Promise.all(sends.map(({ sent }) => sent));
    await release(gate);
    await page.until(() => page.status === 'idle' && page.texts('assistant').length === 4, 'all answers');
    assert.equal(new Set(page.items('user')).size, 4);
    assert.ok(sends.every(({ item }) => item.isConnected), 'each keeps its element');
    const answers = { [texts[0]]: words(2), second: 'You said: second', third: 'You said: third' };
    const order = page.texts('user').slice(1);
    assert.deepEqual(order.toSorted(), texts.toSorted());
    assert.deepEqual(page.texts('assistant').slice(1), order.map((text) => answers[text]), 'answered in the order of the transcript');
    await sameTranscript(page, client);
  });
});

test('an image is rendered locally, then from the server', async () => {
  const client = conversation(served.messages);
  await showing({ client }, async (page) => {
    const bytes = Buffer.from('no picture, but bytes');
    const image = { type: 'image', data: bytes.toString('base64'), mimeType: 'image/png', filename: 'größe.png' };
    const file = () => page.agent.messages[0].parts.find(({ type }) => type === 'file');
    const { sent, item } = page.send('Look', { images: [image] });
    assert.deepEqual(file(), { type: 'file', mediaType: 'image/png', url: `data:image/png;base64,${image.data}`, filename: image.filename });
    await sent;
    await page.untilStatus('idle');
    assert.equal(page.items('user')[0], item);
    assert.equal(item.textContent, 'Look[image/png]');
    const { id, url, size } = file();
    assert.equal(url, client.attachmentUrl(id));
    assert.equal(size, bytes.length);
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    assert.ok(Buffer.from(await response.arrayBuffer()).equals(bytes));
    await sameTranscript(page, client);
  });
});

test('a rejected message remains and can be sent again', async () => {
  const client = conversation(served.completions);
  await showing({ client }, async (page) => {
    await page.untilReady();
    const refused = page.send('Look', { images: [{ type: 'image', data: 'no base64!', mimeType: 'image/png' }] });
    await assert.rejects(refused.sent, (error) => error.status === 400);
    await page.untilStatus('error');
    assert.match(page.alert, /invalid_request/);
    assert.deepEqual(page.agent.failedSends.map(({ message }) => message), ['Look']);
    assert.deepEqual(page.texts(), ['Look[image/png]']);
    await assert.rejects(client.history(), (error) => error.status === 404, 'no conversation was created');
    await page.send('Look again').sent;
    await page.untilText('assistant', 'You said: Look again');
    await page.untilStatus('idle');
    assert.deepEqual(page.agent.failedSends, []);
    await sameTranscript(page, client);
  });
});

test('a message is visible before its receipt arrives', async () => {
  const id = unique();
  await ask(conversation(served.completions, { id }), 'Hello');
  let pass;
  const passed = new Promise((resolve) => (pass = resolve));
  const slow = async (input, init) => {
    const response = await fetch(input, init);
    if (init.method === 'POST') await within(passed, 'the receipt to be let through');
    return response;
  };
  const client = conversation(served.completions, { id, fetch: slow });
  await showing({ client }, async (page) => {
    await page.untilText('assistant', 'You said: Hello');
    const { sent, item } = page.send('second');
    await page.untilText('assistant', 'You said: second');
    pass();
    await sent;
    await page.untilStatus('idle');
    // Without the receipt, the hook cannot recognize its own message.
    await page.until(() => page.items('user').length === 2, 'the message once');
    assert.equal(page.items('user')[1], item);
    await sameTranscript(page, client);
  });
});

test('messages of others are visible, also if they arrive first', async () => {
  const client = conversation(`${library}/completions`);
  await showing({ client }, async (page) => {
    await page.untilReady();
    const gate = unique('gate');
    const admission = await say(client, `tool=join {"words":["a","b"],"gate":"${gate}"} tool=progress {"percent":50}`);
    acting(() => page.agent.refresh());
    await page.untilText('assistant', '(join)(progress)');
    await release(gate);
    await client.wait(admission);
    await page.until(() => page.agent.settlements.length === 1 && page.status === 'idle', 'the settlement');
    assert.equal(page.agent.messages.at(-1).metadata.mood, 'calm');
    await sameTranscript(page, client);
    await client.wait(await client.send({ message: { kind: 'signal', type: 'deploy', body: 'deployed' } }));
    await page.until(() => page.agent.settlements.length === 2 && page.status === 'idle', 'the answer to the signal');
    assert.equal(page.texts('assistant').length, 2);
    assert.deepEqual(page.texts('system'), ['deployed']);
    await sameTranscript(page, client);
  });
});

test('a hidden tab catches up', async () => {
  const client = conversation(served.completions);
  await showing({ client }, async (page) => {
    const gate = unique('gate');
    const { sent } = page.send(`tokens=5 hold=${gate} tokens=5`);
    await sent;
    await page.untilText('assistant', words(5));
    hide(true);
    try {
      await release(gate);
      // Hidden clients do not observe, so poll snapshots.
      await say(client, 'meanwhile');
      await eventually(async () => (await client.history()).settlements.length === 2, 'both settlements');
      assert.deepEqual(page.texts('assistant'), [words(5)], 'a hidden page does not observe');
    } finally {
      hide(false);
    }
    await page.untilText('assistant', 'You said: meanwhile');
    await page.untilStatus('idle');
    await sameTranscript(page, client);
  });
});

test('another conversation replaces the first', async () => {
  const [one, two] = [conversation(served.completions), conversation(served.completions)];
  await ask(one, 'for one');
  await ask(two, 'for two');
  await showing({ client: one }, async (page) => {
    await page.untilText('user', 'for one');
    page.show({ client: two });
    await page.untilText('user', 'for two');
    await page.untilStatus('idle');
    await sameTranscript(page, two);
    page.show({});
    assert.deepEqual([page.texts(), page.status], [[], 'idle'], 'a hook without a conversation is idle');
  });
});
