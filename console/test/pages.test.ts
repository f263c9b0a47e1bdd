// @vitest-environment happy-dom
import { describe, expect, test } from 'vitest';
import type { Figures, Node, Request, Timeline } from '../src/client/dev';
import { bytes, counted, dollars, took } from '../src/format';
import { ceiling } from '../src/pages/charts';
import { filled, short } from '../src/pages/figures';
import { standalone } from '../src/pages/save';
import { cached, difference, label, lasted, lines, note, place, requestsOf, span, stateOf, ticks } from '../src/pages/trace';

const node = (kind: string, ms: number, durationMs: number, more: Partial<Node> = {}): Node => ({ kind, state: 'ok', start: new Date(1_000_000 + ms).toISOString(), durationMs, ...more });

test('a tree is drawn in its order, each node at its place', () => {
  const all = lines(node('submission', 0, 100, { children: [node('queue', 0, 10), node('run', 10, 90, { attempt: 2, children: [node('turn', 20, 30, { name: 'm' })] }), node('tool', 50, 200, { name: 't' })] }));
  expect(all.map((l) => [l.depth, label(l.node), l.from, l.to])).toEqual([[0, 'submission to an agent', 0, 100], [1, 'queue', 0, 10], [1, 'attempt 2', 10, 100], [2, 'turn m', 20, 50], [1, 'tool t', 50, 250]]);
  expect(span(all)).toBe(250);
  expect(place(all[3]!, { from: 0, to: 100 })).toEqual({ left: 20, width: 30 });
  expect(place(all[3]!, { from: 40, to: 60 })).toEqual({ left: 0, width: 50 });
  expect(place(all[3]!, { from: 60, to: 80 })).toBeUndefined();
});

test('what ends after the settlement is drawn, and what was stopped is no error', () => {
  const root = node('submission', 0, 100, { state: 'aborted', children: [node('operation', 0, 100, { state: 'aborted', error: { type: 'submission_aborted' } })], after: [node('post', 500, 20, { name: 'ledger' })] });
  expect(lines(root).map((l) => [label(l.node), stateOf(l.node), l.to])).toEqual([['submission to an agent', 'stopped', 100], ['operation', 'stopped', 100], ['post ledger', '', 520]]);
  expect(note({ ...root, error: { type: 'submission_aborted', message: 'm' } })).toBe('');
});

test('an axis has round moments', () => {
  expect(ticks({ from: 0, to: 1_000 })).toEqual([0, 200, 400, 600, 800, 1_000]);
  expect(ticks({ from: 950, to: 1_070 })).toEqual([950, 1_000, 1_050]);
  expect(ticks({ from: 0, to: 1 })).toEqual([0, 1]);
});

test('a chart has a round top, and hours without a message', () => {
  expect([0, 1, 3, 7, 10, 11, 4_200].map(ceiling)).toEqual([1, 1, 5, 10, 10, 20, 5_000]);
  expect([5, 999, 1_500, 2_000_000].map(short)).toEqual(['5', '999', '1.5k', '2M']);
  const hour = (n: number) => ({ hour: new Date(n * 3_600_000).toISOString(), completed: 1 }) as Figures['hours'][number];
  expect(filled([])).toEqual([]);
  expect(filled([hour(100), hour(103)]).slice(-4).map((h) => h.completed)).toEqual([1, 0, 0, 1]);
  expect(filled([hour(100), hour(200)])).toHaveLength(24);
});

test('what else there is to know', () => {
  expect(note(node('turn', 0, 1, { firstTokenMs: 5, retries: 2, dropped: true, error: { type: 'e', message: 'm' } }))).toBe('first token after 5 ms, retry 2, withdrawn, e: m');
  const usage = { input: 25, output: 1, cacheRead: 75, cacheWrite: 0, cost: { total: 0 } };
  expect(cached(node('turn', 0, 1, { usage }))).toBe('75 %');
  expect(cached(node('turn', 0, 1))).toBe('–');
  expect([node('turn', 0, 0), node('turn', 0, 0, { state: 'running' }), node('turn', 0, 5, { state: 'lost' }), node('log', 0, 0)].map(lasted)).toEqual(['0 ms', '', '5 ms', '']);
  expect(note(node('post', 0, 1, { attempt: 2 }))).toBe('attempt 2');
  expect(note(node('wait', 0, 1, { state: 'running', until: '2026-01-01T00:00:00Z' }))).toMatch(/^until .*202[56]/);
  expect(note(node('wait', 0, 1, { until: '2026-01-01T00:00:00Z', signalSubmissionId: 'sub_1' }))).toBe('signal sub_1');
});

describe('the difference of two prompts', () => {
  const m = (...texts: string[]) => texts.map((text) => ({ role: 'user', text }));
  const how = (before: string[], now: string[]) => difference({ messages: m(...before) }, { messages: m(...now) }).messages.map((c) => `${c.text} ${c.how}`);
  test('at the end', () => expect(how(['a', 'b'], ['a', 'b', 'c'])).toEqual(['a same', 'b same', 'c new']));
  test('cut at the beginning', () => expect(how(['a', 'b'], ['b', 'c'])).toEqual(['a gone', 'b same', 'c new']));
  test('in the middle', () => expect(how(['a', 'b'], ['a', 'x', 'c'])).toEqual(['a same', 'b gone', 'x new', 'c new']));
  test('of nothing', () => expect(how(['a'], ['b'])).toEqual(['a gone', 'b new']));
  test('of the instructions', () => {
    expect(difference(undefined, { messages: [] }).system).toBe('first');
    expect(difference({ messages: [] }, { systemPrompt: 'x', messages: [] }).system).toBe('changed');
  });
});

test('a call is set beside the one before it, of the same purpose', () => {
  const r = (turn: string, purpose = 'agent') => ({ turn, purpose }) as Request;
  const requests = [r('1'), r('c', 'compaction'), r('2'), r('2')];
  expect(requestsOf({ requests } as unknown as Timeline, '2').map((f) => requests.indexOf(f.before!))).toEqual([0, 2]);
  expect(requestsOf({ requests } as unknown as Timeline, '1')).toEqual([{ request: requests[0] }]);
});

test('figures are written as the command line writes them', () => {
  expect([0, 999, 1_234, 61_000, 3_660_000].map(took)).toEqual(['0 ms', '999 ms', '1.23 s', '1m 01s', '1h 01m']);
  expect([0, 0.00001, 0.0123, 1234.5].map(dollars)).toEqual(['–', '<$0.0001', '$0.0123', '$1,234.50']);
  expect([counted(1, 'message'), counted(1200, 'message'), bytes(1500)]).toEqual(['1 message', '1,200 messages', '1.5 kB']);
});

test('what is saved has no script, and its words are text', () => {
  const shown = document.createElement('div');
  shown.append(Object.assign(document.createElement('p'), { textContent: '</style><script>hit()</script>' }), document.createElement('button'));
  const saved = standalone('<b>title</b>', shown);
  expect(saved).not.toMatch(/<script|<button|<b>/);
  expect(saved).toContain('&lt;/style&gt;&lt;script&gt;hit()');
});
