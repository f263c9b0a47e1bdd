import type { Node, Prompt, Request, Timeline } from '../client/dev';
import { took, when } from '../format';

// The layout of a submission's timeline.

/** A node with its position. Times are milliseconds since the start of the submission. */
export type Line = { node: Node; depth: number; from: number; to: number; key: string };

/** The nodes of a tree in display order. */
export function lines(root: Node): Line[] {
  const zero = root.start ? Date.parse(root.start) : 0;
  const all: Line[] = [];
  const walk = (node: Node, depth: number, key: string) => {
    const from = node.start ? Math.max(0, Date.parse(node.start) - zero) : 0;
    all.push({ node, depth, from, to: from + node.durationMs, key });
    [...(node.children ?? []), ...(node.after ?? [])].forEach((c, i) => walk(c, depth + 1, `${key}.${i}`));
  };
  walk(root, 0, '0');
  return all;
}

/** The total duration, to the end of the last node. */
export const span = (all: readonly Line[]): number => Math.max(1, ...all.map((l) => l.to));

/** The position of a line within a window, in percent; undefined if it is outside. */
export function place(l: Line, window: { from: number; to: number }): { left: number; width: number } | undefined {
  const size = window.to - window.from;
  const from = Math.max(l.from, window.from);
  const to = Math.min(l.to, window.to);
  if (to < from || size <= 0) return undefined;
  return { left: (100 * (from - window.from)) / size, width: (100 * (to - from)) / size };
}

/** The name of a node, as printed by the command line. */
export function label(n: Node): string {
  const name = n.name ?? '';
  switch (n.kind) {
    case 'submission': return `submission to ${name || 'an agent'}`;
    case 'queue': return 'queue';
    case 'operation': return name || 'operation';
    case 'run': {
      const attempt = n.attempt ? `attempt ${n.attempt}` : 'run';
      return name && name !== 'settled' && n.state === 'ok' ? `${attempt}: ${name}` : attempt;
    }
    case 'recovery': case 'log': return name;
    default: return `${n.kind} ${name}`;
  }
}

/** The state of a node as text, "" for success. */
export function stateOf(n: Node): string {
  if (n.state === 'ok') return '';
  return n.state === 'aborted' ? 'stopped' : n.state;
}

/** About five round times between two. */
export function ticks(window: { from: number; to: number }): number[] {
  const rough = (window.to - window.from) / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) ?? power * 10;
  const all: number[] = [];
  for (let at = Math.ceil(window.from / step) * step; at <= window.to; at += step) all.push(at);
  return all;
}

/** The duration of a node, as printed by the command line; empty for one that runs or has no duration. */
export function lasted(n: Node): string {
  const open = ['running', 'lost', 'queued'].includes(n.state);
  return n.kind === 'log' || n.kind === 'recovery' || (open && n.durationMs === 0) ? '' : took(n.durationMs);
}

/** Further details of a node. */
export function note(n: Node): string {
  const parts: string[] = [];
  if (n.kind === 'submission' && (n.attempt ?? 0) > 1) parts.push(`${n.attempt} attempts`);
  if (n.recovered) parts.push('after a loss');
  if (n.firstTokenMs) parts.push(`first token after ${took(n.firstTokenMs)}`);
  if (n.retries) parts.push(`retry ${n.retries}`);
  if (n.dropped) parts.push('withdrawn');
  if (n.purpose) parts.push(n.purpose);
  if (n.kind === 'post' && (n.attempt ?? 0) > 1) parts.push(`attempt ${n.attempt}`);
  if (n.signalSubmissionId) parts.push(`signal ${n.signalSubmissionId}`);
  else if (n.state === 'running' && n.until) parts.push(`until ${when(n.until)}`);
  if (n.error && n.kind !== 'operation' && n.state !== 'aborted') parts.push([n.error.type, n.error.message].filter(Boolean).join(': '));
  return parts.join(', ');
}

/** The share of a model's input that was read from its vendor's cache. */
export function cached(n: Node): string {
  const u = n.usage;
  const all = u ? u.input + u.cacheRead + u.cacheWrite : 0;
  return u && all ? `${Math.round((100 * u.cacheRead) / all)} %` : '–';
}

/** A message of a prompt and its counterpart in the previous call. */
export type Change = { role: string; text: string; how: 'same' | 'new' | 'gone' };

/** The difference between a prompt and the previous one. Prompts grow at their ends, and are truncated at their beginnings. */
export function difference(before: Prompt | undefined, now: Prompt): { system: 'same' | 'changed' | 'first'; messages: Change[] } {
  const system = !before ? 'first' : (before.systemPrompt ?? '') === (now.systemPrompt ?? '') ? 'same' : 'changed';
  const same = (a: { role: string; text: string } | undefined, b: { role: string; text: string } | undefined) => a?.role === b?.role && a?.text === b?.text;
  const old = before?.messages ?? [];
  // The longest common end of the old and beginning of the new one.
  let skip = 0;
  while (skip < old.length && !old.slice(skip).every((m, i) => same(m, now.messages[i]))) skip++;
  let kept = old.length - skip;
  let gone = old.slice(0, skip);
  if (kept === 0) {
    // The middle has changed: the common prefix is the same.
    while (kept < Math.min(old.length, now.messages.length) && same(old[kept], now.messages[kept])) kept++;
    gone = old.slice(kept);
    const begun = now.messages.slice(0, kept).map((m): Change => ({ ...m, how: 'same' }));
    return { system, messages: [...begun, ...gone.map((m): Change => ({ ...m, how: 'gone' })), ...now.messages.slice(kept).map((m): Change => ({ ...m, how: 'new' }))] };
  }
  return { system, messages: [...gone.map((m): Change => ({ ...m, how: 'gone' })), ...now.messages.map((m, i): Change => ({ ...m, how: i < kept ? 'same' : 'new' }))] };
}

/** The calls of a turn, each with the previous one of the same purpose. */
export function requestsOf(t: Timeline, turn: string): { request: Request; before?: Request }[] {
  const found: { request: Request; before?: Request }[] = [];
  t.requests.forEach((request, i) => {
    if (request.turn !== turn) return;
    const before = t.requests.slice(0, i).findLast((r) => r.purpose === request.purpose);
    found.push(before ? { request, before } : { request });
  });
  return found;
}
