// Workflows and their runs, by the public clients of the beta line, unmodified.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { stream } from '@durable-streams/client';

import { betaClient, line, sdks } from './beta.mjs';
import { release, required, token, unique, within } from './suite.mjs';

const workflow = required('PARLEY_WORKFLOW_URL');
const control = required('PARLEY_WORKFLOW_CONTROL_URL');
const name = workflow.split('/').at(-1);
const authorization = { authorization: `Bearer ${token}` };
const kinds = (events) => events.map(({ type }) => type);
const waiting = ({ type, data }) => type === 'data' && data.state === 'waiting';
const whole = ['run_start', 'log', 'data', 'data', 'log', 'run_end'];

/** Sends the signal that a run waits for, as clients of Parley do. */
async function approve(runId) {
  const response = await fetch(new URL(`/runs/${runId}`, workflow), {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ kind: 'signal', type: 'parley.wait', attributes: { name: 'approval' }, body: 'true' }),
  });
  assert.equal(response.status, 202, await response.text());
}

/** Follows a run to its end from the client's offset, through outages. */
async function followed(client, runId, live, onEvent) {
  const events = [];
  let offset = '-1';
  for (;;) {
    const read = client.runs.stream(runId, { live, offset });
    try {
      for await (const event of read) {
        if (event.eventIndex < events.length) continue;
        assert.equal(event.eventIndex, events.length, 'no event is skipped');
        events.push(event);
        await onEvent(event);
      }
      if (events.at(-1)?.type === 'run_end') return events;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    offset = read.offset;
    await pause(20);
  }
}

async function order(what) {
  const response = await fetch(`${control}/${what}`, { method: 'POST' });
  assert.equal(response.status, 204, `${what}: ${await response.text()}`);
}

for (const [version, sdk] of Object.entries(sdks)) {
  test(`${version}: invoke and wait`, async () => {
    const client = betaClient(sdk, workflow);
    const done = await client.workflows.invoke(name, { input: { day: 1 }, wait: 'result' });
    assert.match(done.runId, /^run_[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.deepEqual(done.result, { day: 1, lines: 3 });
    const record = await client.runs.get(done.runId);
    assert.deepEqual(
      [record.runId, record.workflowName, record.status, record.isError, record.input, record.result],
      [done.runId, name, 'completed', false, { day: 1 }, done.result],
    );
    const events = await client.runs.events(done.runId);
    assert.deepEqual(kinds(events), ['run_start', 'log', 'log', 'run_end']);
    for (const [i, event] of events.entries()) {
      assert.deepEqual([event.v, event.eventIndex, event.runId, event.instanceId], [3, i, done.runId, undefined]);
    }
    assert.deepEqual([events[0].input, events.at(-1).result, events.at(-1).durationMs], [{ day: 1 }, done.result, record.durationMs]);
    assert.deepEqual(await client.runs.events(done.runId, { tail: 2 }), events.slice(-2));
  });

  for (const live of ['sse', 'long-poll', true]) {
    test(`${version}: follow, live as ${live}`, async () => {
      const client = betaClient(sdk, workflow);
      const { runId } = await client.workflows.invoke(name, { input: { day: 2, approval: true } });
      const events = await within(followed(client, runId, live, async (event) => waiting(event) && approve(runId)), 'the end of the run');
      assert.deepEqual(kinds(events), whole);
      assert.deepEqual(await client.runs.events(runId), events);
    });
  }

  test(`${version}: run`, async () => {
    const client = betaClient(sdk, workflow);
    const seen = [];
    const { runId, result } = await client.workflows.run(name, {
      input: { day: 3, approval: true },
      onEvent: async (event) => {
        seen.push(event);
        if (waiting(event)) await approve(event.runId);
      },
    });
    assert.deepEqual([result, kinds(seen), seen[0].runId], [{ day: 3, lines: 3 }, whole, runId]);
  });

  test(`${version}: errors`, async () => {
    const client = betaClient(sdk, workflow);
    const refused = (call, status, type) => assert.rejects(call, (error) => {
      assert.deepEqual([error.name, error.status, error.body.error.type], ['FlueApiError', status, type]);
      return true;
    });
    await refused(client.workflows.invoke('none'), 404, 'workflow_not_found');
    await refused(client.workflows.invoke(name, { input: { day: 'x' } }), 400, 'invalid_request');
    await refused(client.workflows.invoke('fails', { input: { day: 1 }, wait: 'result' }), 500, 'run_failed');
    await refused(client.runs.get('run_7ZZZZZZZZZZZZZZZZZZZZZZZZZ'), 404, 'run_not_found');
    await assert.rejects(client.workflows.run('fails', { input: { day: 1 } }), (error) => {
      assert.deepEqual([error.name, error.target, error.failure, error.error], ['FlueExecutionError', 'workflow_run', 'failed', { name: 'run_failed', message: 'out of paper' }]);
      return true;
    });
    const { runId } = await client.workflows.invoke('fails', { input: { day: 1 } });
    const events = await within(followed(client, runId, 'sse', async () => {}), 'the end of the run');
    assert.deepEqual([kinds(events), events.at(-1).isError, events.at(-1).result], [['run_start', 'run_end'], true, null]);
    assert.equal((await client.runs.get(runId)).status, 'errored');
  });
}

test('any client of durable streams can read a run', async () => {
  const client = betaClient(sdks['beta.7'], workflow);
  const { runId } = await client.workflows.invoke(name, { input: { day: 4 }, wait: 'result' });
  const read = await stream({ url: `${line(workflow).base}/runs/${runId}`, offset: '-1', live: false, json: true, headers: authorization, warnOnHttp: false });
  assert.deepEqual([await read.json(), read.upToDate, read.streamClosed], [await client.runs.events(runId), true, true]);
});

// The last test, because it kills the server.
test('after a kill runs continue from their last step, and followers from their offsets', async () => {
  const runs = await Promise.all([['beta.5', 'long-poll'], ['beta.7', 'sse']].map(async ([version, live]) => {
    const client = betaClient(sdks[version], workflow);
    const gate = unique('gate');
    const { runId } = await client.workflows.invoke(name, { input: { day: 5, approval: true, gate } });
    let opened;
    const open = new Promise((resolve) => (opened = resolve));
    const over = followed(client, runId, live, async (event) => {
      if (event.type === 'log') opened();
      if (event.type === 'run_resume') await release(gate);
      if (waiting(event)) await approve(runId);
    });
    await within(open, 'the first step');
    return { client, runId, over };
  }));
  await order('kill');
  await order('start');
  for (const { client, runId, over } of runs) {
    const events = await within(over, 'the end of the run');
    assert.deepEqual(kinds(events), ['run_start', 'log', 'run_resume', 'data', 'data', 'log', 'run_end']);
    assert.deepEqual(events.at(-1).result, { day: 5, lines: 3 });
    assert.deepEqual(await client.runs.events(runId), events, 'one stream before and after');
  }
});
