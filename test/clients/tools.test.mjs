// Tools, data and hooks, of an agent without tools and of a program with them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ask, conversation, library, modelCalls, observing, ofRole, release, sameAsHistory, say, served, unique } from './suite.mjs';

const toolParts = (state) => state.messages.flatMap((message) => message.parts).filter((part) => part.type === 'dynamic-tool');

for (const [format, mount] of Object.entries(served)) {
  test(`an unknown tool is an error for the model: ${format}`, async () => {
    const client = conversation(mount);
    const { text } = await ask(client, 'say="Let me look." tool=nonsense {"a":[1,{"b":null}]}');
    assert.match(text, /The tool said: .*nonsense/);
    const parts = (await client.history()).messages.at(-1).parts;
    assert.deepEqual(parts.map((part) => part.type), ['text', 'dynamic-tool', 'text']);
    const { toolCallId, errorText, ...part } = parts[1];
    delete part.durationMs;
    assert.deepEqual(part, { type: 'dynamic-tool', toolName: 'nonsense', state: 'output-error', input: { a: [1, { b: null }] } });
    assert.match(toolCallId, /^call_/);
    assert.ok(errorText.includes('nonsense'));
  });
}

for (const live of ['sse', 'long-poll']) {
  for (const agent of ['completions', 'messages']) {
    test(`observers see tools run: ${live}, ${agent}`, async () => {
      const client = conversation(`${library}/${agent}`);
      await ask(client, 'Hello');
      await observing(client, { live }, async (watcher) => {
        await watcher.until(({ phase }) => phase === 'live', 'the live phase');
        const gate = unique('gate');
        const admission = await say(
          client,
          `reasoning=2 say="Working." tool=join {"words":["a","ß"],"gate":"${gate}"} tool=join {"words":["c"],"gate":"${gate}"} then tool=fail {"why":"no luck"}`,
        );
        const { conversation: running } = await watcher.until(
          ({ conversation }) => toolParts(conversation).filter((part) => part.state === 'input-available').length === 2,
          'two running tools',
        );
        assert.deepEqual(toolParts(running).map((part) => part.input), [{ words: ['a', 'ß'], gate }, { words: ['c'], gate }]);
        await release(gate);
        await watcher.untilSettled(admission);
        await sameAsHistory(watcher, client);

        const response = ofRole(watcher.conversation, 'assistant').at(-1);
        assert.deepEqual(response.parts.map((part) => part.type), ['reasoning', 'text', 'dynamic-tool', 'dynamic-tool', 'dynamic-tool', 'text']);
        const [first, second, third] = toolParts(watcher.conversation);
        assert.deepEqual([first.state, first.output], ['output-available', { joined: 'a ß' }]);
        assert.deepEqual([second.state, second.output], ['output-available', { joined: 'c' }]);
        assert.equal(third.state, 'output-error');
        assert.match(third.errorText, /no luck/);
        assert.equal(new Set([first, second, third].map((part) => part.toolCallId)).size, 3);
        for (const part of [first, second, third]) assert.equal(typeof part.durationMs, 'number');
        assert.match((await client.read(admission)).text, /^Working\.\n\nThe tool said: .*no luck/);
        assert.deepEqual(ofRole(watcher.conversation, 'assistant').map((message) => message.submissionId).filter((id) => id === admission.submissionId).length, 1, 'one message, three steps');
        const steps = (await modelCalls(gate)).map((call) => call.step);
        assert.deepEqual(steps, [0, 1, 2]);
      });
    });
  }
}

test('data and metadata come with the reply', async () => {
  const client = conversation(`${library}/completions`);
  await ask(client, 'Hello');
  await observing(client, { live: 'sse' }, async (watcher) => {
    await watcher.until(({ phase }) => phase === 'live', 'the live phase');
    const admission = await say(client, 'tool=progress {"percent":50}');
    await watcher.untilSettled(admission);
    await sameAsHistory(watcher, client);
    const reply = await client.read(admission);
    assert.deepEqual(reply.data, { progress: [{ percent: 50 }] });
    assert.deepEqual(reply.metadata, { mood: 'calm', usage: { started: true, finished: true } });
  });
});


test('initial data is checked once, at creation', async () => {
  const client = conversation(`${library}/strict`);
  for (const initialData of [undefined, {}, { room: 7 }]) {
    await assert.rejects(say(client, 'x', { initialData }), (error) => error.status === 400 && error.body.error.type === 'invalid_request');
  }
  await assert.rejects(client.history(), (error) => error.status === 404);
  await client.wait(await say(client, 'created', { initialData: { room: 'blue' } }));
  await client.wait(await say(client, 'continued', { initialData: { room: 7 } }));
  assert.equal((await client.history()).messages.length, 4);
});

test('abort ends running tools', async () => {
  const client = conversation(`${library}/completions`);
  const gate = unique('gate');
  const admission = await say(client, `tool=join {"words":["x"],"gate":"${gate}"}`);
  await observing(client, {}, async (watcher) => {
    await watcher.until(({ conversation }) => conversation && toolParts(conversation).length === 1, 'a running tool');
    assert.deepEqual(await client.abort(), { aborted: true });
    await watcher.untilSettled(admission);
    await sameAsHistory(watcher, client);
    const [part] = toolParts(watcher.conversation);
    assert.equal(part.state, 'output-error');
    assert.ok(part.errorText);
    assert.equal(watcher.conversation.settlements[0].outcome, 'aborted');
  });
});
