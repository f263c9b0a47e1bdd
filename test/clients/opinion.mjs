// Checks the server with the public client's own reducer: from any offset, the
// state there and the chunks after it must reduce to the state at the end. The
// reducer is not exported, so the test uses observe(), as an application does,
// over a fetch that replays responses of the server.
import assert from 'node:assert/strict';

import { createFlueClient } from '@flue/sdk';

import { eventually, token, Watcher } from './suite.mjs';

const json = (value) => JSON.parse(JSON.stringify(value));
const offsetOf = (batch) => `0000000000000000_${String(batch).padStart(16, '0')}`;

/** All chunks after an offset, and the offset of the last one. */
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

/** The client's state for a snapshot and the chunks after it. */
async function reduced(url, snapshot, { chunks, offset }) {
  const answers = [Response.json(snapshot), Response.json(chunks, { headers: { 'stream-next-offset': offset, 'stream-up-to-date': 'true' } })];
  // The next read is live and never returns.
  const replay = async (_, { signal }) => answers.shift() ?? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const watcher = new Watcher(createFlueClient({ url, fetch: replay }), { live: 'long-poll', withdrawals: true });
  try {
    // Without chunks the client publishes the snapshot only.
    const has = chunks.length === 0 ? ({ phase }) => phase === 'live' : (now) => now.phase === 'live' && now.offset === offset;
    await watcher.until(has, `the chunks from ${snapshot.offset} to ${offset}`);
    return json(watcher.conversation);
  } finally {
    watcher.close();
  }
}

/** The client's initial state. */
const nothing = { v: 1, conversationId: '', offset: '-1', messages: [], settlements: [] };

/**
 * The state at the end, and all chunks up to there. A restarted server may still
 * write to a settled conversation, but nothing that is visible.
 */
const atRest = (client) =>
  eventually(async () => {
    const history = json(await client.history());
    const all = await updates(client.url, '-1');
    return all.offset === history.offset && [history, all];
  }, 'an idle conversation');

/**
 * Checks an idle conversation, from its beginning and from each offset.
 * snapshots are some that the server returned while it was active. It returns
 * the number of offsets, and the number of full states sent to clients.
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
    assert.deepEqual(rest.chunks, expected, `the chunks after ${offset} are a suffix of all chunks`);
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
