// Conversation ids with all characters that a path may contain.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, conversation, observing, say, served, token, unique } from './suite.mjs';

const tail = unique('');

/** An id of so many bytes, mostly of two-byte characters. */
function filled(bytes) {
  const room = bytes - Buffer.byteLength(tail);
  return 'x'.repeat(room % 2) + 'é'.repeat(Math.floor(room / 2)) + tail;
}

const ids = {
  'a space': `two words${tail}`,
  'a slash': `a/b${tail}`,
  'an escaped slash': `a%2Fb${tail}`,
  'dots and a slash': `../up${tail}`,
  'a question mark and a hash': `a?b#c${tail}`,
  'a plus and a percent': `1+1=100%${tail}`,
  Unicode: `größe-日本-👋🏽${tail}`,
  'a line separator': `a\u2028b${tail}`,
  'a name of a route': `abort${tail}`,
  '512 bytes': filled(512),
};

test('ids are distinct and work on every route', async (t) => {
  for (const [name, id] of Object.entries(ids)) {
    await t.test(name, async () => {
      const client = conversation(served.completions, { id });
      assert.equal((await ask(client, id)).text, `You said: ${id}`);
      const { messages } = await client.history();
      assert.equal(messages.length, 2, 'no other id shares this conversation');
      assert.deepEqual(await client.abort(), { aborted: false });
      const admission = await client.send({ message: { kind: 'user', body: 'x', attachments: [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }] } });
      await observing(client, {}, async (watcher) => {
        const { conversation: state } = await watcher.untilSettled(admission);
        const file = state.messages[2].parts.find((part) => part.type === 'file');
        const response = await fetch(file.url, { headers: { authorization: `Bearer ${token}` } });
        assert.equal(await response.text(), 'hi');
      });
    });
  }
});

test('an id of more than 512 bytes', async () => {
  const client = conversation(served.completions, { id: filled(513) });
  await assert.rejects(say(client, 'x'), (error) => error.status === 400 && error.body.error.type === 'invalid_request');
});

test('agents do not share conversations', async () => {
  const id = unique();
  const [one, two] = [conversation(served.completions, { id }), conversation(served.messages, { id })];
  await ask(one, 'for one');
  await assert.rejects(two.history(), (error) => error.status === 404);
  await ask(two, 'for two');
  assert.equal((await one.history()).messages.length, 2);
});
