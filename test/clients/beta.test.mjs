// The public clients of the beta line, unmodified.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { stream } from '@durable-streams/client';

import { betaClient, deltas, everything, followed, line, sdks } from './beta.mjs';
import { ask, conversation, picture, release, served, token, unique, words } from './suite.mjs';

const order = [
  'operation_start', 'agent_start', 'turn_start', 'message_start', 'message_end', 'message_start',
  'message_end', 'turn_messages', 'turn', 'agent_end', 'operation', 'idle', 'submission_settled',
];
const withoutDeltas = (events) => events.map(({ type }) => type).filter((type) => !type.endsWith('_delta'));

for (const [version, sdk] of Object.entries(sdks)) {
  for (const [format, mount] of Object.entries(served)) {
    const { name } = line(mount);

    test(`${version}: prompt, ${format}`, async () => {
      const client = betaClient(sdk, mount);
      const id = unique();
      const first = await client.agents.prompt(name, id, { message: 'tokens=12' });
      assert.equal(first.offset, '-1');
      assert.match(first.submissionId, /^sub_/);
      assert.equal(first.streamUrl, `${line(mount).base}/agents/${name}/${id}`);
      assert.equal(first.result.text, words(12));
      assert.ok(first.result.usage.totalTokens > 0);
      assert.deepEqual(first.result.model, mount.endsWith('messages') ? { provider: 'second', id: 'm2' } : { provider: 'first', id: 'm1' });
      const events = await everything(client, name, id);
      assert.deepEqual(withoutDeltas(events), order);
      assert.deepEqual(events.map(({ eventIndex }) => eventIndex), events.map((_, i) => i));
      for (const event of events) assert.deepEqual([event.v, event.instanceId, event.agentName, event.runId], [3, id, name, undefined]);
      assert.equal(deltas(events), words(12));
      assert.deepEqual(events.findLast(({ type }) => type === 'message_end').message.content, [{ type: 'text', text: words(12) }]);
      assert.deepEqual(events.at(-1).result, first.result);
    });

    test(`${version}: send and wait, ${format}`, async () => {
      const client = betaClient(sdk, mount);
      const id = unique();
      await client.agents.prompt(name, id, { message: 'Hello' });
      const before = await everything(client, name, id);
      const gate = unique('gate');
      const admission = await client.agents.send(name, id, { message: `reasoning=2 tokens=3 hold=${gate} tokens=4` });
      const seen = [];
      const result = await client.agents.wait(admission, {
        onEvent: (event) => {
          seen.push(event);
          if (event.type === 'text_delta' && deltas(seen) === words(3)) void release(gate);
        },
      });
      assert.equal(result.text, deltas(seen));
      assert.equal(seen[0].type, 'operation_start');
      assert.deepEqual(seen.map(({ eventIndex }) => eventIndex), seen.map((_, i) => i), 'the index restarts with each prompt');
      assert.deepEqual((await everything(client, name, id)).slice(before.length), seen, 'the offset precedes the prompt');
    });

    for (const live of ['sse', 'long-poll', true]) {
      test(`${version}: live as ${live}, ${format}`, async () => {
        const client = betaClient(sdk, mount);
        const id = unique();
        const admission = await client.agents.send(name, id, { message: 'tokens=30' });
        const events = await followed(client, name, id, admission, live);
        assert.deepEqual(withoutDeltas(events), order);
        const tail = [];
        for await (const event of client.agents.stream(name, id, { live: false, tail: 4 })) tail.push(event);
        assert.deepEqual(tail, events.slice(-4));
      });
    }
  }

  test(`${version}: errors`, async () => {
    const client = betaClient(sdk, served.completions);
    const { name } = line(served.completions);
    const refused = (call, status, type) => assert.rejects(call, (error) => {
      assert.deepEqual([error.name, error.status, error.body.error.type], ['FlueApiError', status, type]);
      return true;
    });
    await refused(client.agents.send('nobody', 'x', { message: 'x' }), 404, 'agent_not_found');
    await refused(client.agents.send(name, ' ', { message: 'x' }), 400, 'invalid_request');
    await refused(client.agents.send(name, 'x', { message: 7 }), 400, 'invalid_request');
    await refused(client.runs.get('run_x'), 404, 'run_not_found');
    await refused(client.workflows.invoke('none'), 404, 'workflow_not_found');
    await assert.rejects(everything(client, name, unique()), (error) => error.status === 404);
    const id = unique();
    await refused(client.agents.prompt(name, id, { message: 'status=400' }), 500, 'model_failed');
    const admission = await client.agents.send(name, id, { message: 'status=400' });
    await assert.rejects(client.agents.wait(admission), (error) => {
      assert.deepEqual([error.name, error.failure, error.error.type], ['FlueExecutionError', 'failed', 'model_failed']);
      return true;
    });
  });
}

test('both lines have the same conversation', async () => {
  const client = betaClient(sdks['beta.7'], served.completions);
  const { name } = line(served.completions);
  const id = unique();
  const today = conversation(served.completions, { id });
  await client.agents.prompt(name, id, { message: 'Look', images: [{ type: 'image', data: picture(100).toString('base64'), mimeType: 'image/png' }] });
  await ask(today, 'tokens=2');
  const { messages } = await today.history();
  assert.deepEqual(messages.map(({ role }) => role), ['user', 'assistant', 'user', 'assistant']);
  assert.equal(messages[0].parts.at(-1).mediaType, 'image/png');
  const events = await everything(client, name, id);
  const asked = events.filter(({ type, message }) => type === 'message_end' && message.role === 'user');
  assert.deepEqual(asked.map(({ message }) => message.content.map(({ type }) => type)), [['text', 'image'], ['text']]);
  assert.equal(asked[0].message.content[1].data, sdks['beta.7'].IMAGE_DATA_OMITTED);
  assert.equal(events.filter(({ type }) => type === 'submission_settled').length, 2);
});

test('any client of durable streams can read it', async () => {
  const { base, name } = line(served.completions);
  const client = betaClient(sdks['beta.5'], served.completions);
  const id = unique();
  for (let i = 0; i < 9; i++) await client.agents.prompt(name, id, { message: 'Hello' });
  const all = await everything(client, name, id);
  assert.ok(all.length > 100, `${all.length} events take more than one page`);
  const read = await stream({ url: `${base}/agents/${name}/${id}`, offset: '-1', live: false, json: true, headers: { authorization: `Bearer ${token}` }, warnOnHttp: false });
  assert.deepEqual(await read.json(), all.slice(0, 100));
  assert.equal(read.upToDate, false);
  const rest = await stream({ url: `${base}/agents/${name}/${id}`, offset: read.offset, live: false, json: true, headers: { authorization: `Bearer ${token}` }, warnOnHttp: false });
  assert.deepEqual(await rest.json(), all.slice(100));
  assert.equal(rest.upToDate, true);
});
