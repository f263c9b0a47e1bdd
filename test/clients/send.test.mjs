// Sending, waiting and reading.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { readSubmissionReply } from '@flue/sdk';

import { ask, conversation, modelCalls, observing, ofRole, release, sameAsHistory, say, served, textOf, unique, words } from './suite.mjs';

for (const [format, mount] of Object.entries(served)) {
  test(`send, wait, read: ${format}`, async () => {
    const client = conversation(mount);
    const admission = await say(client, 'tokens=30');
    assert.equal(admission.streamUrl, client.url);
    assert.match(admission.offset, /^\d{16}_\d{16}$/);
    assert.match(admission.submissionId, /^sub_/);
    assert.match(admission.uid, /^inst_/);
    assert.equal(admission.deduplicated, undefined);

    const chunks = [];
    await client.wait(admission, { onEvent: (chunk) => void chunks.push(chunk) });
    assert.deepEqual(chunks.filter((chunk) => chunk.type === 'message-appended'), [], 'the offset is after the message');
    assert.equal(chunks.filter((chunk) => chunk.type === 'message-delta').map((chunk) => chunk.delta).join(''), words(30));
    assert.equal(chunks.at(-1).type, 'submission-settled');
    assert.equal(chunks.at(-1).outcome, 'completed');
    for (let i = 1; i < chunks.length; i++) {
      const [a, b] = [chunks[i - 1].position, chunks[i].position];
      assert.ok(a.batch < b.batch || (a.batch === b.batch && a.index < b.index), `position ${i} does not rise`);
    }

    const reply = { submissionId: admission.submissionId, uid: admission.uid, text: words(30), data: {} };
    assert.deepEqual(await client.read(admission), reply);
    delete reply.uid;
    assert.deepEqual(await client.read(admission.submissionId), reply, 'by the id alone');
    await client.wait(admission);
  });
}

test('history is the complete transcript', async () => {
  const client = conversation(served.completions);
  const first = await say(client, 'Hello there');
  await client.wait(first);
  const second = await say(client, 'tokens=2');
  await client.wait(second);

  const { v, conversationId, offset, messages, settlements } = await client.history();
  assert.equal(v, 1);
  assert.match(conversationId, /^conv_/);
  assert.match(offset, /^\d{16}_\d{16}$/);
  const visible = (role, admission, text) => ({
    role, purpose: role, display: 'visible', submissionId: admission.submissionId, parts: [{ type: 'text', text, state: 'done' }],
  });
  assert.deepEqual(
    messages.map(({ id, turnId, ...message }) => message),
    [
      visible('user', first, 'Hello there'),
      visible('assistant', first, 'You said: Hello there'),
      visible('user', second, 'tokens=2'),
      visible('assistant', second, 'w1 w2'),
    ],
  );
  assert.equal(new Set(messages.map((message) => message.id)).size, 4);
  assert.deepEqual(settlements.map(({ submissionId, outcome, error }) => ({ submissionId, outcome, error })), [
    { submissionId: first.submissionId, outcome: 'completed', error: undefined },
    { submissionId: second.submissionId, outcome: 'completed', error: undefined },
  ]);
});

test('several sends are answered in order', async () => {
  const client = conversation(served.messages);
  const gate = unique('gate');
  const admissions = [await say(client, `tokens=1 hold=${gate}`)];
  for (const text of ['second', 'third', 'fourth']) admissions.push(await say(client, text));
  assert.equal(new Set(admissions.map((admission) => admission.submissionId)).size, 4);
  assert.equal(new Set(admissions.map((admission) => admission.uid)).size, 1);

  await observing(client, { live: 'sse' }, async (watcher) => {
    const { conversation: state } = await watcher.untilText('w1');
    assert.deepEqual(ofRole(state, 'user').map(textOf).slice(1), ['second', 'third', 'fourth'], 'in the transcript while they wait');
    assert.deepEqual(state.settlements, []);

    await release(gate);
    const replies = await Promise.all(admissions.map((admission) => client.read(admission)));
    assert.deepEqual(replies.map((reply) => reply.text), ['w1', 'You said: second', 'You said: third', 'You said: fourth']);

    await watcher.untilSettled(admissions.at(-1));
    await sameAsHistory(watcher, client);
    const ids = admissions.map((admission) => admission.submissionId);
    assert.deepEqual(watcher.conversation.settlements.map((entry) => entry.submissionId), ids);
    assert.deepEqual(ofRole(watcher.conversation, 'assistant').map((message) => message.submissionId), ids);
    assert.deepEqual(admissions.map((admission) => readSubmissionReply(watcher.conversation, admission.submissionId)), replies.map(({ text, data }) => ({ text, data })));
  });
});

test('concurrent sends are all answered, each with its own text', async () => {
  const client = conversation(served.completions);
  const texts = Array.from({ length: 8 }, (_, i) => `number ${i}`);
  const replies = await Promise.all(texts.map((text) => ask(client, text)));
  assert.deepEqual(replies.map((reply) => reply.text), texts.map((text) => `You said: ${text}`));
});

test('a signal is a system message', async () => {
  const client = conversation(served.completions);
  const mark = unique('mark');
  const admission = await client.send({
    message: { kind: 'signal', type: 'deploy', body: `deployed ${mark}`, tagName: 'ci.event', attributes: { ref: 'v1 "<&>"', by: 'ann' } },
  });
  await client.wait(admission);
  const [signal] = (await client.history()).messages;
  assert.deepEqual(
    { role: signal.role, purpose: signal.purpose, display: signal.display, signal: signal.signal, text: textOf(signal) },
    {
      role: 'system', purpose: 'dispatch', display: 'diagnostic', text: `deployed ${mark}`,
      signal: { tagName: 'ci.event', attributes: { ref: 'v1 "<&>"', by: 'ann' } },
    },
  );
  const [call] = await modelCalls(mark);
  assert.match(call.prompt, /^<ci\.event /, 'the model sees the envelope');
});

test('long texts arrive complete in both directions', async () => {
  const client = conversation(served.messages);
  const text = 'Grüße, 世界 👋🏽 \u2028 "quoted" '.repeat(4_000);
  const reply = await ask(client, text);
  assert.ok(reply.text === `You said: ${text}`, `${reply.text.length} characters came back`);
});

test('a conversation of more than two pages is read from its beginning', async () => {
  const client = conversation(served.completions);
  const admissions = [];
  // The server decides how many sends share a batch; a page is 100 batches.
  for (let batches = 0; batches < 200; batches = Number((await client.history()).offset.split('_')[1])) {
    const more = await Promise.all(Array.from({ length: 40 }, (_, i) => say(client, `say="reply ${admissions.length + i}"`)));
    admissions.push(...more);
    await Promise.all(more.map((admission) => client.wait(admission)));
  }
  const order = (await client.history()).settlements.map((entry) => entry.submissionId);
  assert.deepEqual(order.toSorted(), admissions.map((admission) => admission.submissionId).toSorted());
  const settled = [];
  await client.wait(
    { ...admissions[0], submissionId: order.at(-1), offset: '-1' },
    { onEvent: (chunk) => void (chunk.type === 'submission-settled' && settled.push(chunk.submissionId)) },
  );
  assert.deepEqual(settled, order, 'each settlement once, in order');
  assert.equal((await client.read(admissions[7].submissionId)).text, 'reply 7');
  assert.equal((await client.read(admissions.at(-1).submissionId)).text, `reply ${admissions.length - 1}`);
});

test('a wait can be canceled', async () => {
  const client = conversation(served.completions);
  const gate = unique('gate');
  const admission = await say(client, `tokens=1 hold=${gate}`);
  const controller = new AbortController();
  const waiting = client.wait(admission, {
    signal: controller.signal,
    onEvent: (chunk) => void (chunk.type === 'message-delta' && controller.abort(new Error('enough'))),
  });
  await assert.rejects(waiting, /enough/);
  await release(gate);
  await client.wait(admission);
});

test('creation, and the conditions of a send', async () => {
  const client = conversation(served.completions);
  const refused = (status, type, more = () => true) => (error) => {
    assert.equal(error.name, 'FlueApiError');
    assert.equal(error.status, status);
    assert.equal(error.body.error.type, type);
    return more(error);
  };
  await assert.rejects(say(client, 'x', { uid: 'inst_nobody' }), refused(404, 'agent_instance_not_found'));
  await assert.rejects(client.history(), refused(404, 'stream_not_found'));

  const { uid } = await say(client, 'created', { uid: null });
  await assert.rejects(
    say(client, 'x', { uid: null }),
    refused(409, 'agent_instance_exists', (error) => error.body.error.details.includes(uid) && error.body.error.meta.uid === uid),
  );
  await assert.rejects(say(client, 'x', { uid: 'inst_other' }), refused(404, 'agent_instance_not_found'));
  await assert.rejects(say(client, 'x', { uid, initialData: {} }), refused(400, 'invalid_request'));
  const continued = await say(client, 'continued', { uid });
  assert.equal(continued.uid, uid);
  await client.wait(continued);
  assert.deepEqual(ofRole(await client.history(), 'user').map(textOf), ['created', 'continued']);
});

test('one of several concurrent creations wins', async () => {
  const client = conversation(served.messages);
  const results = await Promise.allSettled(Array.from({ length: 6 }, (_, i) => say(client, `racer ${i}`, { uid: null })));
  const won = results.filter((result) => result.status === 'fulfilled');
  assert.equal(won.length, 1);
  for (const { reason } of results.filter((result) => result.status === 'rejected')) {
    assert.equal(reason.status, 409);
    assert.equal(reason.body.error.meta.uid, won[0].value.uid);
  }
});

test('an idempotency key delivers once', async () => {
  const client = conversation(served.completions);
  const mark = unique('mark');
  const keyed = { idempotencyKey: unique('key') };
  const [first, ...replays] = (await Promise.all(Array.from({ length: 4 }, () => say(client, mark, keyed)))).sort(
    (a, b) => Number(a.deduplicated ?? false) - Number(b.deduplicated ?? false),
  );
  assert.equal(first.deduplicated, undefined);
  await client.wait(first);
  replays.push(await say(client, mark, keyed));
  for (const replay of replays) {
    assert.equal(replay.deduplicated, true);
    assert.equal(replay.submissionId, first.submissionId);
    assert.equal(replay.uid, first.uid);
    assert.equal((await client.read(replay)).text, `You said: ${mark}`);
  }
  assert.equal((await modelCalls(mark)).length, 1);
  assert.equal(ofRole(await client.history(), 'user').length, 1);

  await assert.rejects(say(client, 'another text', keyed), (error) => {
    assert.equal(error.status, 409);
    assert.equal(error.body.error.type, 'submission_conflict');
    assert.equal(error.body.error.meta.submissionId, first.submissionId);
    return true;
  });
});
