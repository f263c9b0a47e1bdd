// Features of a program's agents: tools, data, metadata, subagents, waits; and the behaviour when a
// model or a server fails, in the chat and in the timeline.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { author, Browser, chat, model, post, release, say, Server, shot, shows, texts, unique, until, words } from './harness.mjs';

/** The models of the author's agent; the second is the fallback. */
const text = (listen) => `
listen: ${listen}
bucket: {dir: data}
providers:
  fake:
    api: openai-completions
    baseUrl: "${model}/v1"
    apiKeyEnv: MODEL_KEY
    models: {m1: {contextWindow: 1000000, maxTokens: 100000}, m2: {contextWindow: 1000000, maxTokens: 100000}}
agents:
  author: {mounts: [/agents/author]}
`;

let server, browser;
before(async () => {
  [server, browser] = await Promise.all([new Server(['dev'], text, author).start(), Browser.start()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const timeline = (submission) => fetch(`${server.base}/+console/api/submission?id=${submission}`).then((r) => r.json());

/** The nodes of a trace in display order, with their depths. */
function flat(node, depth = 0) {
  return [{ ...node, depth }, ...(node.children ?? []).flatMap((child) => flat(child, depth + 1))];
}

/**
 * Waits until a timeline is complete, has all nodes described by [kind, part of the name, test], and equals the output of the
 * command line, which reads the file of events; returns its nodes. Events of models arrive shortly after those of the log.
 */
async function settled(submission, told = []) {
  let missing = '';
  const look = async () => {
    const { trace } = await timeline(submission);
    missing = `the end, but it is ${trace?.state}`;
    if (!['completed', 'failed', 'aborted'].includes(trace?.state)) return undefined;
    const nodes = flat(trace);
    missing = told.find((t) => !find(nodes, ...t))?.join(' ');
    if (missing) return undefined;
    missing = 'the command line to say the same';
    const { source, ...printed } = JSON.parse(execFileSync(author, ['trace', submission, '--json', '--data', join(server.dir, 'data')], {
      encoding: 'utf8', stdio: 'pipe', env: { ...process.env, CONSOLE_AS_AUTHOR: '1' },
    }));
    return isDeepStrictEqual(trace, printed) && nodes;
  };
  try {
    return await until(() => look().catch((error) => { missing = error.message; }));
  } catch (cause) {
    throw new Error(`the timeline waits for ${missing}`, { cause });
  }
}

const find = (nodes, kind, name, test = () => true) => nodes.find((n) => n.kind === kind && (n.name ?? '').includes(name) && test(n));

test('calls of tools show input, output, duration and error, data and metadata are there', async () => {
  const id = unique('tools');
  await browser.look(chat(server, id, 'author'), async (page) => {
    const gate = unique('gate');
    await say(page, `say="Let me look." tool=look_up {"Topic":"tea"} tool=refuse {"Why":"no luck"} tool=show {"Percent":40} then hold=${gate} tokens=5`);
    // They are shown before the answer.
    await shows(page, '.message.assistant', 'refuse');
    await page.waitForFunction(() => document.querySelectorAll('details.tool .state').length === 3 && ![...document.querySelectorAll('details.tool .state')].some((e) => e.textContent === 'running'));
    await release(gate);
    await shows(page, '.message.assistant .md', words(5));
    const tools = await page.$$eval('details.tool', (all) => all.map((d) => ({
      open: d.open, summary: d.querySelector('summary').textContent.replace(/\s+/g, ' '), parts: [...d.querySelectorAll('h4')].map((h) => [h.textContent, h.nextElementSibling.querySelector('pre').textContent]),
    })));
    assert.match(tools[0].summary, /^tool look_up done \d[\d.]* m?s$/);
    assert.deepEqual(tools[0].parts.map(([name, value]) => [name, JSON.parse(value)]), [['Input', { Topic: 'tea' }], ['Output', { topic: 'tea', note: 'tea keeps people awake.' }]]);
    assert.equal(tools[0].open, false, 'what went well is folded');
    assert.match(tools[1].summary, /^tool refuse failed \d[\d.]* m?s$/);
    assert.deepEqual(tools[1].parts.map(([name]) => name), ['Input', 'Error']);
    assert.match(tools[1].parts[1][1], /no luck/);
    assert.equal(tools[1].open, true, 'what failed is not');
    assert.deepEqual(JSON.parse((await texts(page, 'details.data pre'))[0]), { Percent: 40 });
    assert.match((await texts(page, 'details.data summary'))[0], /data\s*progress/);
    assert.deepEqual(JSON.parse((await texts(page, '.message.assistant > details.fold:last-child pre'))[0]), { mood: 'calm' });
    await page.$$eval('details.tool', (all) => { all[0].open = true; });
    await shot(page, 'tools');
    // A reloaded page shows the same.
    const drawn = await texts(page, '.message.assistant');
    await page.reload();
    await shows(page, '.message.assistant .md', words(5));
    assert.deepEqual((await texts(page, '.message.assistant')), drawn);
  }, { tolerated: /404/ });
  const [{ submissionId }] = await until(async () => {
    const { settlements } = await (await fetch(`${server.base}/agents/author/${id}`)).json();
    return settlements.length === 1 && settlements;
  });
  await settled(submissionId);
  await browser.look(`${server.base}/#/submission/${submissionId}`, async (page) => {
    await shows(page, '.trace', 'tool refuse error');
    await page.$$eval('.trace > li > details', (all) => { for (const d of all) if (/^tool (look_up|refuse)/.test(d.textContent)) d.open = true; });
    await shows(page, '.trace', 'no luck');
    const inside = (await texts(page, '.trace .inside pre')).join('\n');
    assert.match(inside, /"Topic":"tea"/);
    assert.match(inside, /tea keeps people awake/);
  });
});

test('a subagent, a wait, a retry and a fallback, in the chat and in the timeline', async () => {
  const id = unique('delegates');
  const errand = 'tool=look_up {"Topic":"tea"} then say="Tea wakes."';
  const { submissionId } = await post(server, id, `status=503 times=1 tool=task ${JSON.stringify({ agent: 'reader', prompt: errand })} then tool=approve {"Name":"order-7"} then status=400 only=m1 tokens=3`, 'author');
  await browser.look(chat(server, id, 'author'), async (page) => {
    await shows(page, '.wait', 'order-7 waiting until');
    await shot(page, 'waits');
    const response = await fetch(`${server.base}/agents/author/${id}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ kind: 'signal', type: 'parley.wait', attributes: { name: 'order-7' }, body: 'true' }),
    });
    assert.equal(response.status, 202);
    await shows(page, '.message.assistant .md', words(3));
    await shows(page, '.wait', 'order-7 answered');
    assert.equal((await texts(page, '.wait')).length, 1);
    await shows(page, 'details.tool', 'approved: true');
  }, { tolerated: /404/ });
  const nodes = await settled(submissionId, [
    ['task', 'reader'], ['tool', 'look_up'], ['wait', 'order-7'], ['tool', 'approve'], ['turn', '', (n) => n.retries], ['turn', 'fake/m2'],
  ]);
  const [task, inner] = [find(nodes, 'task', 'reader'), find(nodes, 'tool', 'look_up')];
  assert.ok(nodes.indexOf(inner) > nodes.indexOf(task) && inner.depth > task.depth, 'what the subagent does is below its task');
  await browser.look(`${server.base}/#/submission/${submissionId}`, async (page) => {
    await shows(page, '.trace', 'wait order-7');
    const labels = await until(async () => {
      const drawn = await page.$$eval('.trace .label', (all) => all.map((e) => ({ text: e.textContent, depth: parseFloat(e.style.paddingInlineStart) })));
      return drawn.length === flat((await timeline(submissionId)).trace).length && drawn; // Every node has its line.
    });
    const at = (words) => labels.findIndex((l) => l.text.includes(words));
    assert.ok(at('task reader') >= 0 && at('tool look_up') > at('task reader') && labels[at('tool look_up')].depth > labels[at('task reader')].depth, 'and is as deep');
    await page.$$eval('.saved > details > summary', (all) => all[0].click());
    const table = (await texts(page, '.saved > details tbody tr')).join('\n');
    assert.match(table, /retry 1/);
    assert.match(table, /wait order-7.*signal sub_/);
    await shot(page, 'delegated');
  });
});

test('an attempt that was lost with its server, and the one that went on', async () => {
  const id = unique('lost');
  const gate = unique('gate');
  const { submissionId } = await post(server, id, `tokens=3 hold=${gate} tokens=3`, 'author');
  await until(async () => JSON.stringify(await (await fetch(`${server.base}/agents/author/${id}`)).json()).includes('w3'));
  await server.kill();
  await release(gate);
  await server.start();
  await settled(submissionId);
  await browser.look(`${server.base}/#/submission/${submissionId}`, async (page) => {
    await shows(page, '.trace', 'attempt 2');
    const labels = (await texts(page, '.trace .label')).join('\n');
    assert.match(labels, /attempt 1.* lost/);
    await page.$$eval('.saved > details > summary', (all) => all[0].click());
    assert.match((await texts(page, '.saved > details tbody tr')).join('\n'), /attempt 2.*after a loss/);
    await shot(page, 'recovered');
  });
});

/** Requires that every node is within its parent. */
function within(node) {
  const [from, to] = [Date.parse(node.start), Date.parse(node.start) + node.durationMs];
  for (const child of node.children ?? []) {
    const begun = Date.parse(child.start);
    assert.ok(begun >= from && begun + child.durationMs <= to, `${child.kind} ${child.name} lies within ${node.kind} ${node.name}`);
    within(child);
  }
}

test('timelines after a crash and after a stop are true to the log', async () => {
  const said = async (id, word) => until(async () => JSON.stringify(await (await fetch(`${server.base}/agents/author/${id}`)).json()).includes(word));
  const [crashed, stopped, gate, never] = [unique('crashed'), unique('stopped'), unique('gate'), unique('gate')];
  const first = await post(server, crashed, `tokens=3 hold=${gate} tokens=3 hold=${never}`, 'author');
  await said(crashed, 'w3');
  await release(gate);
  await said(crashed, 'w6');
  await server.kill();
  await server.start();
  const lost = (await settled(first.submissionId)).filter((n) => n.state === 'lost');
  assert.deepEqual(lost.map((n) => n.kind), ['run', 'turn']);
  assert.ok(lost.every((n) => n.durationMs > 0), `what was lost is as long as the log shows it at work: ${JSON.stringify(lost)}`);
  within((await timeline(first.submissionId)).trace);

  const second = await post(server, stopped, `tokens=3 hold=${never}`, 'author');
  await said(stopped, 'w3');
  const answer = await fetch(`${server.base}/agents/author/${stopped}/abort`, { method: 'POST' });
  assert.deepEqual(await answer.json(), { aborted: true });
  const nodes = await settled(second.submissionId);
  assert.deepEqual(nodes.filter((n) => ['error', 'failed'].includes(n.state)), [], 'a stop is no error');
  assert.deepEqual(nodes.map((n) => [n.kind, n.state]), [['submission', 'aborted'], ['queue', 'ok'], ['operation', 'aborted'], ['run', 'aborted'], ['turn', 'aborted']]);
  within((await timeline(second.submissionId)).trace);
  await browser.look(`${server.base}/#/submission/${first.submissionId}`, async (page) => {
    await shows(page, '.trace', 'attempt 2');
    await shot(page, 'crashed');
  });
  await browser.look(`${server.base}/#/submission/${second.submissionId}`, async (page) => {
    await shows(page, '.notice', 'Aborted by a request');
    assert.equal((await texts(page, '.trace .timebar.error, .trace .timebar.failed')).length, 0);
    await shot(page, 'stopped');
  });
});
