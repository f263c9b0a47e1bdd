// @vitest-environment happy-dom
import { render } from 'preact';
import { describe, expect, test } from 'vitest';
import { causesOf, rowsOf, stages } from '../src/chat/chat';
import { windowOf, type Row } from '../src/chat/list';
import { joined, MessageView, textOf } from '../src/chat/parts';
import { read, type Schema } from '../src/chat/schema';
import { goString, shell, snippets, stopping } from '../src/chat/snippets';
import type { View } from '../src/client/follow';
import { start } from '../src/client/reduce';
import { RequestError } from '../src/client/http';
import type { Message } from '../src/client/types';
import { madeAt } from '../src/format';
import { format, parse } from '../src/route';

test('the text of an error has each sentence once', () => {
  for (const [message, details, want] of [['One.', 'One. Two.', 'One. Two.'], ['One.', 'One.', 'One.'], ['One.', 'Two.', 'One. Two.'], ['One.', '', 'One.'], ['', 'Two.', 'Two.']] as const) {
    expect(new RequestError(400, 'invalid_request', message, details).text, `${message}|${details}`).toBe(want);
  }
});

const rows = (n: number): Row[] => Array.from({ length: n }, (_, i) => ({ key: String(i), draw: () => null }));

describe('a window of a list', () => {
  const heights = new Map(rows(2000).map((r, i) => [r.key, 20 + (i % 50)]));
  const total = [...heights.values()].reduce((a, b) => a + b, 0);
  for (const top of [0, 1, 5_000, total / 2, total - 500, total + 9_999]) {
    test(`at ${top}`, () => {
      const w = windowOf(rows(2000), heights, { top, height: 500 });
      const sum = (from: number, to: number) => rows(2000).slice(from, to).reduce((n, r) => n + heights.get(r.key)!, 0);
      expect(w.before).toBe(sum(0, w.first));
      expect(w.before + sum(w.first, w.last) + w.after).toBe(total);
      expect(w.last - w.first).toBeLessThan(90);
      if (top <= total - 500) {
        expect(w.before).toBeLessThanOrEqual(Math.max(0, top));
        expect(w.before + sum(w.first, w.last)).toBeGreaterThanOrEqual(Math.min(total, top + 500));
      }
    });
  }
});

describe('initial data', () => {
  const schema: Schema = {
    type: 'object', required: ['name', 'n'],
    properties: {
      name: { type: 'string' }, n: { type: 'integer' }, on: { type: 'boolean' }, kind: { enum: ['a', 'b'] }, list: { type: 'array' }, tone: { type: ['null', 'string'], default: 'calm' },
    },
  };
  const form = (fields: Record<string, string | boolean>) => read(schema, { fields, raw: '' }, false);

  test('is what the form says', () => {
    expect(form({ name: 'x', n: '3', on: true, kind: 'b', list: '[1,2]', tone: '' })).toEqual({ value: { name: 'x', n: 3, on: true, kind: 'b', list: [1, 2] } });
    expect(form({ name: 'x', n: '3' })).toEqual({ value: { name: 'x', n: 3, tone: 'calm' } });
  });
  test('is refused with what is wrong', () => {
    expect(form({ name: 'x' }).problem).toBe('n is missing.');
    for (const name of ['', '  ']) expect(form({ name, n: '3' }).problem).toBe('name is missing.');
    expect(form({ n: '3' }).problem).toBe('name is missing.');
    expect(form({ name: 'x', n: 'three' }).problem).toBe('n is not a number.');
    expect(form({ name: 'x', n: '1', list: '[' }).problem).toBe('list is not JSON.');
  });
  test('may be JSON', () => {
    expect(read(schema, { fields: {}, raw: '{"name":1}' }, true)).toEqual({ value: { name: 1 } });
    expect(read({}, { fields: {}, raw: '' }, false)).toEqual({});
    expect(read({}, { fields: {}, raw: '{' }, false).problem).toMatch(/^The initial data is not JSON/);
  });
});

describe('rows', () => {
  const message = (id: string, role: Message['role'], submissionId: string, text: string, more: Partial<Message> = {}): Message => ({
    id, role, purpose: role === 'system' ? 'advisory' : role, display: 'visible', submissionId, parts: [{ type: 'text', text, state: 'done' }], ...more,
  });
  const follower = { url: 'http://localhost/agents/a/x', begun: new Map<string, unknown>(), again: () => {}, forget: () => {} };
  const text = (view: View) => {
    const at = document.createElement('div');
    render(<>{rowsOf(view, follower).map((r) => <section key={r.key}>{r.draw()}</section>)}</>, at);
    return [...at.querySelectorAll('section')].map((e) => e.textContent);
  };

  test('tell an outcome once, after its message, with its remedy', () => {
    const error = { type: 'model_failed', message: 'The model failed.' };
    const view: View = {
      phase: 'live', pending: [],
      conversation: {
        ...start,
        messages: [
          message('u1', 'user', 's1', 'hello'), message('a1', 'assistant', 's1', 'half'), message('x1', 'system', 's1', 'The model failed.', { display: 'diagnostic' }),
          message('h', 'system', 's1', 'plumbing', { display: 'hidden' }), message('u2', 'user', 's2', 'again'),
        ],
        settlements: [{ submissionId: 's1', outcome: 'failed', error }],
      },
    };
    const shown = text(view);
    expect(shown).toHaveLength(5); // The last one is running.
    expect(shown[4]).toMatch(/^ ?Working/);
    expect(shown[2]).toMatch(/^Failed: The model failed. model_failed.*Check the API key/);
    expect(shown.join()).not.toContain('plumbing');
  });

  test('show what is on its way until it is there', () => {
    const delivery = { kind: 'user' as const, body: 'hello', idempotencyKey: 'k' };
    const refused = new RequestError(400, 'invalid_request', 'The request is malformed.', 'Why.');
    expect(text({ phase: 'absent', conversation: start, pending: [{ delivery, at: 0 }] })[0]).toBe('Yousendinghello');
    expect(text({ phase: 'absent', conversation: start, pending: [{ delivery, at: 0, error: refused }] })[0]).toContain('Not sent. The request is malformed. Why.');
    const conversation = { ...start, messages: [message('u1', 'user', 's1', 'hello')] };
    expect(text({ phase: 'live', conversation, pending: [{ delivery, at: 0, submissionId: 's1' }] })).toEqual([expect.stringMatching(/^You.*hello$/), expect.stringContaining('Working')]);
  });
});

describe('a reply in the making', () => {
  const told = (id: string, role: Message['role'], submissionId: string, parts: Message['parts']): Message => ({ id, role, purpose: role, display: 'visible', submissionId, parts });
  const said = (text: string, state: 'streaming' | 'done' = 'done') => [{ type: 'text' as const, text, state }];
  const view = (...messages: Message[]): View => ({ phase: 'live', pending: [], conversation: { ...start, messages } });
  const call = (state: 'input-available' | 'output-available') => ({ type: 'dynamic-tool' as const, toolName: 't', toolCallId: 'c', input: {}, state });
  const wait = (state: string) => ({ type: 'data-wait-c' as const, data: { name: 'w', state } });

  test('shows that it is worked on, and what waits behind it', () => {
    const mine = [told('u1', 'user', 's1', said('one')), told('u2', 'user', 's2', said('two'))];
    const of = (...parts: Message['parts']) => Object.fromEntries(stages(view(...mine, told('a1', 'assistant', 's1', parts))));
    expect(Object.fromEntries(stages(view(...mine)))).toEqual({ s1: 'working', s2: 'queued' });
    expect(of(...said('half', 'streaming'))).toEqual({ s1: 'talking', s2: 'queued' });
    expect(of(...said('half'))).toEqual({ s1: 'working', s2: 'queued' });
    expect(of(call('input-available'))).toEqual({ s1: 'talking', s2: 'queued' });
    expect(of(call('output-available'))).toEqual({ s1: 'working', s2: 'queued' });
    expect(of(call('input-available'), wait('waiting'))).toEqual({ s1: 'waiting', s2: 'working' });
    expect(of(call('input-available'), wait('signal'))).toEqual({ s1: 'talking', s2: 'queued' });
  });
  test('goes on in the middle of a sentence where it broke off', () => {
    const parts = [...said('The ans'), ...said('wer.\n\n'), call('output-available'), ...said('Next')];
    expect(joined(parts).map((p) => ('text' in p ? p.text : p.type))).toEqual(['The answer.\n\n', 'dynamic-tool', 'Next']);
    expect(textOf(told('a', 'assistant', 's', parts))).toBe('The answer.\n\nNext');
  });
  test('has the words of the vendor', () => {
    const log = { kind: 'log', state: 'ok', durationMs: 0, error: { type: 'model_failed', message: '{"error":{"message":"no such model"}}' } };
    expect(causesOf({ kind: 'submission', state: 'failed', durationMs: 1, children: [log, { kind: 'turn', state: 'error', durationMs: 1, error: { type: 'x', message: 'ours' }, children: [log] }] })).toEqual(['no such model']);
  });
});

test('the moment of an id', () => {
  expect(madeAt('msg_01HF7YAT00000000000000C002')).toBe(1_700_000_000_000);
  for (const id of ['msg_2', '', 'x', 'msg_01HF7YAT0']) expect(madeAt(id)).toBeUndefined();
});

test('addresses are read as they are written', () => {
  for (const hash of ['#/', '#/chat/%2Fagents%2Fa/x%2Fy', '#/chat/%2Fa/1/%2Fb/2', '#/submission/sub_1', '#/figures', '#/conversations']) {
    expect(format(parse(hash))).toBe(hash);
  }
  for (const hash of ['', '#/chat/%E0', '#/chat/only', '#/nothing', '#/submission/']) expect(parse(hash)).toEqual({ page: 'start' });
});

test('snippets quote what was said', () => {
  const nasty = `it's "x" $HOME \`id\`\n\\ é 𝄞 \u2028 \u007f`;
  expect(shell(nasty)).toBe(`'it'\\''s "x" $HOME \`id\`\n\\ é 𝄞 \u2028 \u007f'`);
  expect(goString(nasty)).toBe(`"it's \\"x\\" $HOME \`id\`\\n\\\\ é 𝄞 \\u2028 \\u007f"`);
  const at = { url: 'http://localhost:1/agents/a/x', secured: false, headers: [] as string[] };
  const [curl, go, ts] = snippets(at, { body: nasty, initialData: { a: 1 }, images: 1 });
  expect(curl!.text).toContain('# without the image that came along');
  expect(go!.text).toContain('InitialData: json.RawMessage("{\\"a\\":1}")');
  expect(ts!.text).toContain('initialData: {"a":1}');
  for (const s of [...snippets(at, { body: 'x' }), ...stopping(at)]) expect(s.text).not.toMatch(/TOKEN|initialData|InitialData/);
  for (const s of [...snippets({ ...at, secured: true }, { body: 'x' }), ...stopping({ ...at, secured: true })]) expect(s.text).toContain('PARLEY_TOKEN');
  const wants = { ...at, headers: ['X-Tenant', "x-it's"] };
  for (const s of [...snippets(wants, { body: 'x' }), ...stopping(wants)]) {
    expect(s.text).toContain('X_TENANT');
    expect(s.text).toContain('X_IT_S');
  }
  expect(snippets(wants, { body: 'x' })[0]!.text).toContain(`-H 'x-it'\\''s: '"$X_IT_S"`);
});

test('a wait shows its state', () => {
  const wait = (name: string, state: string) => ({ type: `data-wait-${name}` as const, data: { name, state, until: '2026-01-01T00:00:00.000Z' } });
  const message: Message = {
    id: 'm', role: 'assistant', purpose: 'assistant', display: 'visible',
    parts: [wait('a', 'signal'), { type: 'data-progress', data: 1 }, wait('b', 'waiting'), wait('c', 'timeout'), wait('d', 'ended')],
  };
  const at = document.createElement('div');
  render(<MessageView message={message} url="http://localhost/agents/a/x" traced={false} begun={undefined} />, at);
  expect([...at.querySelectorAll('.wait b')].map((e) => e.textContent)).toEqual(['a', 'b', 'c', 'd']);
  expect([...at.querySelectorAll('.wait .state')].map((e) => e.textContent)).toEqual(['answered', 'waiting', 'timeout', 'ended']);
  expect([...at.querySelectorAll('.wait .failed')].map((e) => e.textContent)).toEqual(['timeout', 'ended']);
  expect(at.querySelectorAll('.data')).toHaveLength(1);
});
