// Failures between the server and the model.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { ask, conversation, modelCalls, observing, release, sameAsHistory, say, served, unique, vendorWords, words } from './suite.mjs';

// Most of the time is the backoff before retries.
describe('calls of the model', { concurrency: true }, () => {
  for (const [format, mount] of Object.entries(served)) {
    for (const [name, script] of Object.entries({
      'the model refuses': 'status=400',
      'the key is refused': 'status=401',
      'the call is too large': 'status=413',
    })) {
      test(`a failed reply: ${name}, ${format}`, async () => {
        const client = conversation(mount);
        const admission = await say(client, `${script} note=${unique()}`);
        const chunks = [];
        let failure;
        await assert.rejects(client.wait(admission, { onEvent: (chunk) => void chunks.push(chunk) }), (error) => {
          failure = error;
          return error.name === 'FlueExecutionError' && error.failure === 'failed';
        });
        assert.equal(typeof failure.error.type, 'string');
        assert.ok(failure.error.message);
        assert.equal(failure.targetId, admission.submissionId);

        const history = await client.history();
        assert.deepEqual(history.settlements, [{ ...history.settlements[0], submissionId: admission.submissionId, outcome: 'failed', error: failure.error }]);
        for (const seen of [failure.error, failure.message, chunks, history]) {
          assert.ok(!JSON.stringify(seen).includes(vendorWords), "the vendor's words stay inside");
        }
        assert.equal((await ask(client, 'Hello again')).text, 'You said: Hello again', 'the conversation continues');
      });
    }

    for (const [name, script] of Object.entries({
      'too many requests': 'status=429 retry-after=0 times=2',
      'overloaded': 'status=503 times=1',
      'the connection breaks at once': 'truncate=0 times=1',
      'the connection breaks in the middle': 'truncate=3 times=1',
      'an error in the middle': 'fail=3 times=1',
    })) {
      test(`a call is retried: ${name}, ${format}`, async () => {
        const client = conversation(mount);
        const mark = unique();
        const admission = await say(client, `${script} tokens=5 note=${mark}`);
        await client.wait(admission);
        assert.equal((await client.read(admission)).text, words(5), 'the text appears once');
        assert.equal((await modelCalls(mark)).length, script.includes('times=2') ? 3 : 2);
        const { messages } = await client.history();
        assert.deepEqual(messages.map((message) => message.role), ['user', 'assistant']);
        assert.ok(!JSON.stringify(messages).includes(vendorWords));
      });
    }
  }
});

for (const live of ['sse', 'long-poll']) {
  test(`the text of a broken call is withdrawn from observers: ${live}`, async () => {
    const client = conversation(served.completions);
    await ask(client, 'Hello');
    const gate = unique('gate');
    const admission = await say(client, `tokens=3 hold=${gate} truncate=0 times=1 say="The end."`);
    await observing(client, { live, withdrawals: true }, async (watcher) => {
      await watcher.untilText(words(3));
      await release(gate);
      await watcher.untilSettled(admission);
      await sameAsHistory(watcher, client);
      assert.equal((await client.read(admission)).text, `${words(3)} The end.`, 'no text appears twice');
    });
  });
}

test('an answer truncated at the token limit is an answer', async () => {
  const client = conversation(served.messages);
  await observing(client, {}, async (watcher) => {
    const admission = await say(client, 'tokens=3 finish=length');
    watcher.observation.refresh();
    await watcher.untilSettled(admission);
    await sameAsHistory(watcher, client);
    assert.equal((await client.read(admission)).text, words(3));
  });
});
