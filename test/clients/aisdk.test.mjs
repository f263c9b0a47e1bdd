// The compiled transport of examples/aisdk with the chat class of the AI SDK behind useChat.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

import { AbstractChat } from 'ai';

import { conversation, eventually, library, modelCalls, release, say, served, token, unique, words } from './suite.mjs';

let folder, ParleyTransport;
before(async () => {
  // The package of an author who copied the example.
  folder = mkdtempSync(join(tmpdir(), 'aisdk-'));
  for (const name of ['transport.ts', 'tsconfig.json']) copyFileSync(resolve('../../examples/aisdk', name), join(folder, name));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}\n');
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  await promisify(execFile)(process.execPath, [resolve('node_modules/typescript/bin/tsc'), '-p', folder]).catch((e) => assert.fail(e.stdout));
  ({ ParleyTransport } = await import(pathToFileURL(join(folder, 'out/transport.js'))));
});
after(() => folder && rmSync(folder, { recursive: true, force: true }));

/** A chat without a page. */
class Chat extends AbstractChat {
  constructor(mount, id = unique()) {
    const state = {
      status: 'ready', error: undefined, messages: [],
      pushMessage: (m) => { state.messages = [...state.messages, m]; },
      popMessage: () => { state.messages = state.messages.slice(0, -1); },
      replaceMessage: (i, m) => { state.messages = state.messages.with(i, m); },
      snapshot: (v) => structuredClone(v),
    };
    super({ id, state, transport: new ParleyTransport({ mount, headers: { Authorization: `Bearer ${token}` } }) });
  }

  get said() {
    return this.messages.map((m) => m.parts.filter((p) => p.type === 'text').map((p) => p.text).join('|'));
  }
}

for (const [format, mount] of Object.entries(served)) {
  test(`messages are sent once and answered in order: ${format}`, async () => {
    const chat = new Chat(mount);
    const gate = unique('gate');
    const first = `reasoning=2 tokens=3 hold=${gate} tokens=3`;
    const answered = chat.sendMessage({ text: first });
    await eventually(() => chat.said[1]?.startsWith(words(3)), 'the first words');
    assert.equal(chat.status, 'streaming');
    await release(gate);
    await answered;
    assert.equal(chat.status, 'ready', String(chat.error));
    assert.match(chat.messages[1].parts.find((p) => p.type === 'reasoning').text, /\S/);
    await chat.sendMessage({ text: 'tokens=2' });
    assert.equal(chat.said[3], words(2));
    const { messages, settlements } = await conversation(mount, { id: chat.id }).history();
    assert.deepEqual(messages.filter((m) => m.role === 'user').map((m) => m.parts[0].text), [first, 'tokens=2']);
    assert.deepEqual(settlements.map((s) => s.outcome), ['completed', 'completed']);
    assert.equal((await modelCalls(gate)).length, 1, 'the message is sent once');
  });
}

test('stop aborts at the server, and a failure is an error', async () => {
  const chat = new Chat(served.completions);
  const answered = chat.sendMessage({ text: `tokens=2 hold=${unique('gate')}` });
  await eventually(() => chat.said[1] === words(2), 'the first words');
  await chat.stop();
  await answered;
  const client = conversation(served.completions, { id: chat.id });
  await eventually(async () => (await client.history()).settlements[0]?.outcome === 'aborted', 'the abort');
  await chat.sendMessage({ text: 'status=400' });
  assert.equal(chat.status, 'error');
  assert.match(chat.error.message, /\S/);
});

test('another page follows a reply in progress', async () => {
  const id = unique();
  const gate = unique('gate');
  const client = conversation(served.messages, { id });
  await say(client, `tokens=2 hold=${gate} tokens=2`);
  const chat = new Chat(served.messages, id);
  const resumed = chat.resumeStream();
  await eventually(() => chat.said.at(-1)?.startsWith(words(2)), 'the first words');
  await release(gate);
  await resumed;
  const { messages } = await client.history();
  assert.equal(chat.said.at(-1), messages.at(-1).parts.map((p) => p.text ?? '').join(''));
  await chat.resumeStream();
  assert.equal(chat.status, 'ready');
});

test('tool calls and data are parts', async () => {
  const chat = new Chat(`${library}/completions`);
  const gate = unique('gate');
  await release(gate);
  await chat.sendMessage({ text: `say="Working." tool=join {"words":["a","b"],"gate":"${gate}"} tool=fail {"why":"no luck"} then tool=progress {"percent":50} then tokens=1` });
  assert.equal(chat.status, 'ready', String(chat.error));
  const { messages } = await conversation(`${library}/completions`, { id: chat.id }).history();
  const { parts } = messages.find((m) => m.role === 'assistant');
  const core = (all) => all.map(({ type, text, toolName, state, input, output, errorText, data }) => JSON.parse(JSON.stringify({ type, text, toolName, state: type === 'dynamic-tool' ? state : undefined, input, output, errorText, data })));
  assert.deepEqual(core(chat.messages[1].parts), core(parts));
  assert.ok(['output-available', 'output-error'].every((s) => parts.some((p) => p.state === s)));
});
