// Abort of running and queued submissions.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, conversation, observing, ofRole, sameAsHistory, say, served, textOf, unique, words } from './suite.mjs';

const aborted = (error) => {
  assert.equal(error.name, 'FlueExecutionError');
  assert.equal(error.failure, 'aborted');
  assert.equal(error.error.type, 'submission_aborted');
  assert.ok(error.error.message);
  return true;
};

for (const [format, mount] of Object.entries(served)) {
  test(`abort ends running and queued submissions: ${format}`, async () => {
    const client = conversation(mount);
    const admissions = [await say(client, 'reasoning=2 tokens=4 hang=1')];
    for (const text of ['second', 'third']) admissions.push(await say(client, text));
    await observing(client, { live: 'sse' }, async (watcher) => {
      await watcher.untilText(words(5));
      const waits = admissions.map((admission) => assert.rejects(client.wait(admission), aborted));
      assert.deepEqual(await client.abort(), { aborted: true });
      await Promise.all(waits);
      await assert.rejects(client.read(admissions[0].submissionId), aborted);

      for (const admission of admissions) await watcher.untilSettled(admission);
      await sameAsHistory(watcher, client);
      const { messages, settlements } = watcher.conversation;
      assert.deepEqual(settlements.map((entry) => [entry.submissionId, entry.outcome]), admissions.map((admission) => [admission.submissionId, 'aborted']));
      assert.deepEqual(ofRole(watcher.conversation, 'user').map(textOf).slice(1), ['second', 'third'], 'no message is lost');
      assert.deepEqual(messages.find((message) => message.role === 'assistant').parts, [
        { type: 'reasoning', text: 't1 t2', state: 'done' },
        { type: 'text', text: words(5), state: 'done' },
      ]);
      const advisories = ofRole(watcher.conversation, 'system');
      assert.ok(advisories.length > 0, 'the transcript contains an advisory about the abort');
      for (const { purpose, display, submissionId } of advisories) {
        assert.deepEqual({ purpose, display }, { purpose: 'advisory', display: 'diagnostic' });
        assert.ok(admissions.some((admission) => admission.submissionId === submissionId));
      }

      assert.deepEqual(await client.abort(), { aborted: false }, 'no submission is pending');
      assert.equal((await ask(client, 'Hello again')).text, 'You said: Hello again');
    });
  });
}

test('abort of an idle or unknown conversation', async () => {
  const client = conversation(served.completions);
  assert.deepEqual(await client.abort(), { aborted: false });
  await assert.rejects(client.history(), (error) => error.status === 404);
  await ask(client, 'Hello');
  assert.deepEqual(await client.abort(), { aborted: false });
  assert.equal((await client.history()).settlements[0].outcome, 'completed');
});

test('abort of one conversation does not affect others', async () => {
  const [one, two] = [conversation(served.completions), conversation(served.completions)];
  const hanging = await say(one, `hang=1 note=${unique()}`);
  const running = await say(two, 'tokens=50 pace=2ms');
  assert.deepEqual(await one.abort(), { aborted: true });
  await assert.rejects(one.wait(hanging), aborted);
  assert.equal((await two.read(running)).text, words(50));
});
