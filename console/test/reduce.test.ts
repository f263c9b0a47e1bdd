import { describe, expect, test } from 'vitest';
import { fromSnapshot, reduce, start } from '../src/client/reduce';
import { Parser } from '../src/client/stream';
import type { Chunk, Snapshot } from '../src/client/types';

const offset = (n: number) => `0000000000000000_${String(n).padStart(16, '0')}`;
const snapshot = (n: number, messages: Snapshot['messages'] = []): Snapshot => ({ conversationId: 'conv_1', offset: offset(n), messages, settlements: [] });
let batch = 0;
const chunk = (c: object): Chunk => ({ conversationId: 'conv_1', position: { batch: ++batch, index: 0 }, ...c }) as Chunk;

describe('reduce', () => {
  const all = () => {
    batch = 0;
    return [
      chunk({ type: 'conversation-reset', snapshot: snapshot(0, [{ id: 'u', role: 'user', purpose: 'user', display: 'visible', parts: [] }]) }),
      chunk({ type: 'message-started', messageId: 'm', submissionId: 's', metadata: { a: { x: 1 } } }),
      chunk({ type: 'message-delta', messageId: 'm', kind: 'reasoning', delta: 'hm' }),
      chunk({ type: 'message-delta', messageId: 'm', kind: 'text', delta: 'one ' }),
      chunk({ type: 'message-delta', messageId: 'm', kind: 'text', delta: 'two' }),
      chunk({ type: 'data-part', messageId: 'm', name: 'progress', data: 1 }),
      chunk({ type: 'data-part', messageId: 'm', name: 'progress', data: 2 }),
      chunk({ type: 'tool-input', messageId: 'm', toolCallId: 'c', toolName: 't', input: { q: 1 } }),
      chunk({ type: 'message-completed', messageId: 'm' }),
      chunk({ type: 'tool-output', toolCallId: 'c', output: 'ok', durationMs: 5 }),
      chunk({ type: 'message-started', messageId: 'm', submissionId: 's' }),
      chunk({ type: 'message-delta', messageId: 'm', kind: 'text', delta: 'three' }),
      chunk({ type: 'message-metadata', messageId: 'm', metadata: { a: { y: 2 } } }),
      chunk({ type: 'message-completed', messageId: 'm' }),
      chunk({ type: 'submission-settled', submissionId: 's', outcome: 'failed', error: { type: 'model_failed', message: 'no' } }),
    ];
  };

  test('a response of two steps', () => {
    const c = reduce(start, all());
    expect(c.messages.map((m) => m.id)).toEqual(['u', 'm']);
    expect(c.messages[1]).toEqual({
      id: 'm', role: 'assistant', purpose: 'assistant', display: 'visible', submissionId: 's', metadata: { a: { x: 1, y: 2 } },
      parts: [
        { type: 'reasoning', text: 'hm', state: 'done' },
        { type: 'text', text: 'one two', state: 'done' },
        { type: 'data-progress', data: 2 },
        { type: 'dynamic-tool', toolName: 't', toolCallId: 'c', input: { q: 1 }, state: 'output-available', output: 'ok', durationMs: 5 },
        { type: 'text', text: 'three', state: 'done' },
      ],
    });
    expect(c.settlements).toEqual([{ submissionId: 's', outcome: 'failed', error: { type: 'model_failed', message: 'no' } }]);
  });

  test('what comes again makes no difference, however it is cut', () => {
    const chunks = all();
    const whole = reduce(start, chunks);
    for (let cut = 0; cut <= chunks.length; cut++) {
      const before = reduce(start, chunks.slice(0, cut));
      expect(reduce(before, chunks.slice(Math.max(0, cut - 3)))).toEqual(whole);
    }
  });

  test('a snapshot covers its offset', () => {
    batch = 3;
    const c = fromSnapshot(snapshot(4, [{ id: 'm', role: 'assistant', purpose: 'assistant', display: 'visible', parts: [] }]));
    const covered = chunk({ type: 'message-delta', messageId: 'm', kind: 'text', delta: 'old' });
    const next = chunk({ type: 'message-delta', messageId: 'm', kind: 'text', delta: 'new' });
    expect(reduce(c, [covered, next]).messages[0]!.parts).toEqual([{ type: 'text', text: 'new', state: 'streaming' }]);
  });

  test('what was drawn is not changed', () => {
    const chunks = all();
    const before = reduce(start, chunks.slice(0, 5));
    const copy = structuredClone(before);
    reduce(before, chunks.slice(5));
    expect(before).toEqual(copy);
    expect(reduce(before, chunks.slice(5)).messages[0]).toBe(before.messages[0]);
  });

  test('metadata reaches no prototype', () => {
    const c = reduce(start, [...all(), chunk({ type: 'message-metadata', messageId: 'm', metadata: JSON.parse('{"__proto__": {"polluted": 1}}') })]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    expect(Object.hasOwn(c.messages[1]!.metadata!, '__proto__')).toBe(true);
  });
});

test('an event stream, cut anywhere', () => {
  const text = ': heartbeat\n\nevent: data\ndata:[{"a":"ü\\n"}]\n\nevent: control\ndata:{"upToDate":true}\n\n';
  const want = [{ event: 'data', data: '[{"a":"ü\\n"}]' }, { event: 'control', data: '{"upToDate":true}' }];
  for (let cut = 0; cut <= text.length; cut++) {
    const p = new Parser();
    expect([...p.push(text.slice(0, cut)), ...p.push(text.slice(cut))]).toEqual(want);
  }
});
