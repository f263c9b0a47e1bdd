// Data parts: live observation and reload agree, with one part per name.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, conversation, library, observing, ofRole, sameAsHistory, say, unique } from './suite.mjs';

const dataOf = (state) => ofRole(state, 'assistant').at(-1).parts.filter(({ type }) => type.startsWith('data-'));
// By name: calls of one step wait in any order.
const waits = (state) => dataOf(state).map(({ data }) => [data.name, data.state]).sort();
const signal = (client, name) => client.send({ message: { kind: 'signal', type: 'parley.wait', attributes: { name }, body: 'true' } });

/** Runs an operation while the model calls tools. Returns the data parts of the last response, observed live and reloaded. */
async function dataAfter(live, script, run = async () => {}) {
  const client = conversation(`${library}/messages`);
  await ask(client, 'Hello');
  return observing(client, { live }, async (watcher) => {
    await watcher.until(({ phase }) => phase === 'live', 'the live phase');
    const admission = await say(client, script);
    const shows = async (...states) => {
      await watcher.until(({ conversation }) => JSON.stringify(waits(conversation)) === JSON.stringify(states), `waits that are ${JSON.stringify(states)}`);
      await sameAsHistory(watcher, client);
    };
    await run(client, shows);
    await watcher.untilSettled(admission);
    await sameAsHistory(watcher, client);
    const parts = dataOf(watcher.conversation);
    assert.deepEqual(JSON.parse(JSON.stringify(parts)), dataOf(await client.history()));
    return { parts, states: waits(watcher.conversation) };
  });
}

for (const live of ['sse', 'long-poll']) {
  test(`an answered wait: ${live}`, async () => {
    const name = unique('ok');
    const { parts, states } = await dataAfter(live, `tool=approve {"names":["${name}"]} then tokens=1`, async (client, shows) => {
      await shows([name, 'waiting']);
      await signal(client, name);
    });
    assert.deepEqual(states, [[name, 'signal']]);
    assert.match(parts[0].type, /^data-wait-call_/);
  });

  test(`two consecutive waits of a call: ${live}`, async () => {
    const { states } = await dataAfter(live, 'tool=approve {"names":["first","second"]} then tokens=1', async (client, shows) => {
      await shows(['first', 'waiting']);
      await signal(client, 'first');
      await shows(['second', 'waiting']);
      await signal(client, 'second');
    });
    assert.deepEqual(states, [['second', 'signal']]);
  });

  test(`a wait that times out: ${live}`, async () => {
    const { states } = await dataAfter(live, 'tool=approve {"names":["late"],"ms":50} then tokens=1');
    assert.deepEqual(states, [['late', 'timeout']]);
  });

  test(`an aborted wait: ${live}`, async () => {
    const { states } = await dataAfter(live, 'tool=approve {"names":["ok"]}', async (client, shows) => {
      await shows(['ok', 'waiting']);
      assert.deepEqual(await client.abort(), { aborted: true });
    });
    assert.deepEqual(states, [['ok', 'ended']]);
  });

  test(`two waiting calls, one answered before the abort: ${live}`, async () => {
    const { states } = await dataAfter(live, 'tool=approve {"names":["a"]} tool=approve {"names":["b"]}', async (client, shows) => {
      await shows(['a', 'waiting'], ['b', 'waiting']);
      await signal(client, 'b');
      await shows(['a', 'waiting'], ['b', 'signal']);
      await client.abort();
    });
    assert.deepEqual(states, [['a', 'ended'], ['b', 'signal']]);
  });

  test(`a run without a wait: ${live}`, async () => {
    const { states } = await dataAfter(live, 'tool=start {} then tokens=1');
    assert.equal(states.length, 1);
    assert.deepEqual(states[0][0], 'run');
    assert.ok(['signal', 'ended'].includes(states[0][1]), `the run that nobody waits for is ${states[0][1]}`);
  });

  test(`a tool overwrites data: ${live}`, async () => {
    const { parts } = await dataAfter(live, 'tool=progress {"percent":10,"then":[50,90]} then tokens=1');
    assert.deepEqual(parts, [{ type: 'data-progress', data: { percent: 90 } }]);
  });

  test(`two calls write the same name: ${live}`, async () => {
    const { parts } = await dataAfter(live, 'tool=progress {"percent":10} then say="Half." tool=progress {"percent":50} then tokens=1');
    assert.deepEqual(parts, [{ type: 'data-progress', data: { percent: 50 } }]);
  });
}

test('a reply has the last data of each name', async () => {
  const reply = await ask(conversation(`${library}/completions`), 'tool=progress {"percent":10} then tool=progress {"percent":90}');
  assert.deepEqual(reply.data, { progress: [{ percent: 90 }] });
});
