// The public client's own reducer as a second opinion: whatever offset a client
// resumes from, the state there and the chunks behind it must be the state at the
// end. The reducer is not exported, so it is reached the way an application does,
// through observe(), over a fetch that answers with what the server said.
import assert from 'node:assert/strict';

import { createFlueClient } from '@flue/sdk';

import { eventually, token, Watcher } from './suite.mjs';

const json = (value) => JSON.parse(JSON.stringify(value));
const offsetOf = (batch) => `0000000000000000_${String(batch).padStart(16, '0')}`;

/** All chunks behind an offset, and the offset they lead to. */
async function updates(url, offset) {
  const chunks = [];
  for (;;) {
    const response = await fetch(`${url}?view=updates&offset=${offset}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 200, `updates from ${offset}`);
    chunks.push(...(await response.json()));
    offset = response.headers.get('stream-next-offset');
    if (response.headers.get('stream-up-to-date') === 'true') return { chunks, offset };
  }
}

/** What the client makes of a snapshot and the chunks behind it. */
async function reduced(url, snapshot, { chunks, offset }) {
  const answers = [Response.json(snapshot), Response.json(chunks, { headers: { 'stream-next-offset': offset, 'stream-up-to-date': 'true' } })];
  // What comes after is a live read, and there nothing happens any more.
  const replay = async (_, { signal }) => answers.shift() ?? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const watcher = new Watcher(createFlueClient({ url, fetch: replay }), { live: 'long-poll', withdrawals: true });
  try {
    // Without chunks nothing more is published than the snapshot.
    const has = chunks.length === 0 ? ({ phase }) => phase === 'live' : (now) => now.phase === 'live' && now.offset === offset;
    await watcher.until(has, `the chunks from ${snapshot.offset} to ${offset}`);
    return json(watcher.conversation);
  } finally {
    watcher.close();
  }
}

/** What a client holds before it has read anything. */
const nothing = { v: 1, conversationId: '', offset: '-1', messages: [], settlements: [] };

/**
 * The state at the end, and all chunks up to there. A server that comes back may
 * still write to a conversation where all is settled, but nothing that shows.
 */
const atRest = (client) =>
  eventually(async () => {
    const history = json(await client.history());
    const all = await updates(client.url, '-1');
    return all.offset === history.offset && [history, all];
  }, 'a conversation that rests');

/**
 * Checks a conversation that rests, from its beginning and from every offset after
 * it. snapshots are some that the server gave while it ran. It returns how many
 * offsets there were, and how many times a client was given a state as a whole.
 */
export async function secondOpinion(client, snapshots = []) {
  const { url } = client;
  const [history, all] = await atRest(client);
  const head = Number(all.offset.split('_')[1]);
  const { conversationId, messages, settlements } = history;
  const same = async (from, rest) => assert.deepEqual(await reduced(url, from, rest), { conversationId, messages, settlements }, `from ${from.offset}`);
  await same(nothing, all);
  for (let batch = 0; batch <= head; batch++) {
    const offset = offsetOf(batch);
    const before = { chunks: all.chunks.filter(({ position }) => position.batch <= batch), offset };
    const rest = await updates(url, offset);
    const expected = all.chunks.filter(({ position }) => position.batch > batch);
    assert.deepEqual(rest.chunks, expected, `the chunks behind ${offset} are those of the whole`);
    const state = { v: 1, offset, ...(await reduced(url, nothing, before)) };
    await same(state, rest);
    for (const snapshot of snapshots.filter((one) => one.offset === offset)) {
      const { conversationId, messages, settlements } = json(snapshot);
      assert.deepEqual(state, { v: 1, offset, conversationId, messages, settlements }, `up to ${offset}`);
      await same(json(snapshot), rest);
    }
  }
  return { offsets: head + 2, resets: all.chunks.filter(({ type }) => type === 'conversation-reset').length };
}
