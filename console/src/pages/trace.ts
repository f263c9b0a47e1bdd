import type { Node, Prompt, Request, Timeline } from '../client/dev';
import { took, when } from '../format';

// The timeline of a submission, as what is drawn.

/** A node with its place. Times are milliseconds since the start of the submission. */
export type Line = { node: Node; depth: number; from: number; to: number; key: string };

/** The nodes of a tree in the order in which they are drawn. */
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

/** How long the whole takes: to the end of whatever ends last. */
export const span = (all: readonly Line[]): number => Math.max(1, ...all.map((l) => l.to));

/** Where a line is within a window, in percent; nothing if it is outside. */
export function place(l: Line, window: { from: number; to: number }): { left: number; width: number } | undefined {
  const size = window.to - window.from;
  const from = Math.max(l.from, window.from);
  const to = Math.min(l.to, window.to);
  if (to < from || size <= 0) return undefined;
  return { left: (100 * (from - window.from)) / size, width: (100 * (to - from)) / size };
}

/** What a node is called, as the command line calls it. */
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

/** The state of a node in words, "" for one that ended well. */
export function stateOf(n: Node): string {
  if (n.state === 'ok') return '';
  return n.state === 'aborted' ? 'stopped' : n.state;
}

/** Round moments between two, about five of them. */
export function ticks(window: { from: number; to: number }): number[] {
  const rough = (window.to - window.from) / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) ?? power * 10;
  const all: number[] = [];
  for (let at = Math.ceil(window.from / step) * step; at <= window.to; at += step) all.push(at);
  return all;
}

/** How long a node took, as the command line says it: what is under way, and what has no length, took nothing yet. */
export function lasted(n: Node): string {
  const open = ['running', 'lost', 'queued'].includes(n.state);
  return n.kind === 'log' || n.kind === 'recovery' || (open && n.durationMs === 0) ? '' : took(n.durationMs);
}

/** What else there is to know of a node. */
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

/** How much of what a model was shown came out of its vendor's cache. */
export function cached(n: Node): string {
  const u = n.usage;
  const all = u ? u.input + u.cacheRead + u.cacheWrite : 0;
  return u && all ? `${Math.round((100 * u.cacheRead) / all)} %` : '–';
}

/** A message of a prompt beside the one of the call before. */
export type Change = { role: string; text: string; how: 'same' | 'new' | 'gone' };

/** What is another thing in a prompt than in the one before. Prompts grow at their ends, and are cut at their beginnings. */
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
    // Something in the middle was changed: what both begin with is the same.
    while (kept < Math.min(old.length, now.messages.length) && same(old[kept], now.messages[kept])) kept++;
    gone = old.slice(kept);
    const begun = now.messages.slice(0, kept).map((m): Change => ({ ...m, how: 'same' }));
    return { system, messages: [...begun, ...gone.map((m): Change => ({ ...m, how: 'gone' })), ...now.messages.slice(kept).map((m): Change => ({ ...m, how: 'new' }))] };
  }
  return { system, messages: [...gone.map((m): Change => ({ ...m, how: 'gone' })), ...now.messages.map((m, i): Change => ({ ...m, how: i < kept ? 'same' : 'new' }))] };
}

/** The calls of a turn, each with the one of the same purpose before it. */
export function requestsOf(t: Timeline, turn: string): { request: Request; before?: Request }[] {
  const found: { request: Request; before?: Request }[] = [];
  t.requests.forEach((request, i) => {
    if (request.turn !== turn) return;
    const before = t.requests.slice(0, i).findLast((r) => r.purpose === request.purpose);
    found.push(before ? { request, before } : { request });
  });
  return found;
}
