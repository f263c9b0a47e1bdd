// The client's reducer, for all types of chunks, from each offset.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { secondOpinion } from './opinion.mjs';
import { ask, conversation, eventually, library, observing, ofRole, release, say, served, unique, words } from './suite.mjs';

/**
 * Runs an operation on a conversation, takes snapshots during it, for which run
 * may wait, and checks all of them with the reducer.
 */
async function checked(client, run) {
  const snapshots = [];
  // The first message precedes the observation.
  await ask(client, 'Hello');
  await observing(client, { live: 'sse', withdrawals: true }, async (watcher) => {
    await watcher.until(({ phase }) => phase === 'live', 'the live phase');
    let asking;
    let more = false;
    const keep = async () => {
      do {
        more = false;
        snapshots.push(await client.history());
      } while (more);
      asking = undefined;
    };
    const stop = watcher.observation.subscribe(() => {
      more = true;
      asking ??= keep();
    });
    for (const admission of await run(client, watcher, snapshots)) await watcher.untilSettled(admission);
    stop();
    await asking;
  });
  const judgement = await secondOpinion(client, snapshots);
  assert.ok(snapshots.some(({ offset }) => offset !== snapshots.at(-1).offset), 'some snapshots are intermediate');
  return { ...judgement, snapshots, history: await client.history() };
}

const settled = ({ settlements }) => settlements.map(({ outcome }) => outcome);
const withState = (snapshots, type, state) => snapshots.some(({ messages }) => messages.some(({ parts }) => parts.some((part) => part.type === type && part.state === state)));
const image = { type: 'image', data: 'aGk=', mimeType: 'image/png', filename: 'größe.png' };
const signal = { kind: 'signal', type: 'deploy', body: 'deployed "<&>"', tagName: 'ci.event', attributes: { ref: 'v1', by: 'ann' } };

describe('state and chunks are the later state', { concurrency: true }, () => {
  for (const [format, mount] of Object.entries(served)) {
    test(`texts, reasoning, images, signals: ${format}`, async () => {
      const { history, snapshots } = await checked(conversation(mount), async (client, _, snapshots) => {
        const gate = unique('gate');
        const admissions = [
          await client.send({ message: { kind: 'user', body: 'Look', attachments: [image] } }),
          await say(client, `reasoning=20 hold=${gate}-1 tokens=60 pace=4ms hold=${gate}-2 tokens=2`),
          await client.send({ message: signal }),
          await say(client, 'say="One, " tool=nonsense {"a":[1,{"b":null}]} then reasoning=3 say="two, " tool=nothing {} then tokens=30 pace=4ms'),
        ];
        await eventually(() => withState(snapshots, 'reasoning', 'streaming'), 'a snapshot of a thought as it came');
        await release(`${gate}-1`);
        await eventually(() => withState(snapshots, 'text', 'streaming'), 'a snapshot of a text as it came');
        await release(`${gate}-2`);
        return admissions;
      });
      assert.deepEqual(settled(history), Array(5).fill('completed'));
      assert.ok(withState(snapshots, 'text', 'streaming') && withState(snapshots, 'reasoning', 'streaming'), 'snapshots show the streaming response');
    });

    test(`withdrawn and failed responses: ${format}`, async () => {
      const { resets, history } = await checked(conversation(mount), async (client, watcher) => {
        const gate = unique('gate');
        const admissions = [await say(client, `reasoning=2 tokens=3 hold=${gate}-1 truncate=0 times=1 tokens=5 hold=${gate}-2 tool=nonsense {} then tokens=4 hold=${gate}-3 fail=0 times=1 tokens=2`)];
        await watcher.untilText(words(3));
        await release(`${gate}-1`);
        await watcher.untilText(words(8));
        await release(`${gate}-2`);
        await watcher.untilText(`${words(8)}|${words(4)}`);
        await release(`${gate}-3`);
        admissions.push(await say(client, `tokens=3 status=503 times=1 note=${unique()}`), await say(client, `status=400 note=${unique()}`));
        return admissions;
      });
      assert.ok(resets >= 3, 'the creation, and two steps withdrawn');
      assert.deepEqual(settled(history), ['completed', 'completed', 'completed', 'failed']);
    });

    test(`aborted responses: ${format}`, async () => {
      const { history } = await checked(conversation(mount), async (client, watcher) => {
        const admissions = [await say(client, 'reasoning=2 tokens=4 hang=1'), await say(client, 'waits'), await client.send({ message: signal })];
        await watcher.untilText(words(5));
        await client.abort();
        await watcher.untilSettled(admissions[2]);
        admissions.push(await say(client, 'goes on'));
        return admissions;
      });
      assert.deepEqual(settled(history), ['completed', 'aborted', 'aborted', 'aborted', 'completed']);
    });
  }

  for (const agent of ['completions', 'messages']) {
    test(`tools, data, metadata: ${agent}`, async () => {
      const { history, snapshots } = await checked(conversation(`${library}/${agent}`), async (client, watcher) => {
        const gate = unique('gate');
        const running = (n) => watcher.until(({ conversation }) => ofRole(conversation, 'assistant').flatMap(({ parts }) => parts).filter(({ state }) => state === 'input-available').length === n, `${n} running tools`);
        const join = (n) => `tool=join {"words":["a","ß"],"gate":"${gate}-${n}"}`;
        const admissions = [
          await say(client, `reasoning=2 say="Working." ${join(1)} ${join(2)} tool=progress {"percent":10} then ${join(3)} tool=progress {"percent":50} then tool=fail {"why":"no luck"} tool=progress {"percent":90} then tokens=30 pace=4ms`),
          await say(client, 'tool=progress {"percent":100} then say="Done, too."'),
        ];
        // Results in another order than the calls.
        await running(2);
        await release(`${gate}-2`);
        await running(1);
        await release(`${gate}-1`);
        await release(`${gate}-3`);
        await watcher.untilSettled(admissions[1]);
        admissions.push(await say(client, `${join(4)} ${join(5)}`));
        await running(2);
        await release(`${gate}-4`);
        await running(1);
        await client.abort();
        return admissions;
      });
      assert.deepEqual(settled(history), ['completed', 'completed', 'completed', 'aborted']);
      const [, response] = ofRole(history, 'assistant');
      assert.deepEqual(response.parts.filter(({ type }) => type === 'data-progress').map(({ data }) => data.percent), [90]);
      assert.equal(response.metadata?.mood, agent === 'completions' ? 'calm' : undefined);
      assert.ok(withState(snapshots, 'dynamic-tool', 'input-available'));
    });
  }

  test('a conversation of more than one page', async () => {
    const { offsets } = await checked(conversation(served.messages), async (client) => {
      const admissions = [];
      for (let i = 0; i < 60; i++) {
        const admission = await say(client, `number ${i}`);
        admissions.push(admission);
        await client.wait(admission);
      }
      return admissions;
    });
    assert.ok(offsets > 100, `${offsets} offsets`);
  });
});
