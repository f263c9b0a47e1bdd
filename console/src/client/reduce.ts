import type { Chunk, Message, Part, Position, Settlement, Snapshot, ToolPart } from './types';

/** The known state of a conversation. Values are immutable, so that equal values are not rendered again. */
export type Conversation = {
  conversationId: string;
  messages: readonly Message[];
  settlements: readonly Settlement[];
  position: Position;
};

/** Before everything. */
export const start: Conversation = { conversationId: '', messages: [], settlements: [], position: { batch: -1, index: -1 } };

/** The state of a snapshot. Chunks covered by its offset are not applied again. */
export function fromSnapshot(s: Snapshot): Conversation {
  return { conversationId: s.conversationId, messages: s.messages, settlements: s.settlements, position: { batch: batchOf(s.offset), index: Infinity } };
}

/** The batch of an offset; -1 is before all of them. */
function batchOf(offset: string): number {
  return Number(offset.slice(offset.indexOf('_') + 1));
}

/** Applies chunks in order and skips applied ones. */
export function reduce(c: Conversation, chunks: readonly Chunk[]): Conversation {
  let messages: Message[] | undefined;
  const own = () => (messages ??= [...c.messages]);
  let { conversationId, settlements, position } = c;
  for (const chunk of chunks) {
    if (!after(chunk.position, position)) continue;
    position = chunk.position;
    if (chunk.type === 'conversation-reset') {
      conversationId = chunk.snapshot.conversationId;
      messages = [...chunk.snapshot.messages];
      settlements = chunk.snapshot.settlements;
    } else if (chunk.type === 'submission-settled') {
      const { submissionId, outcome, error } = chunk;
      settlements = [...settlements, error ? { submissionId, outcome, error } : { submissionId, outcome }];
    } else {
      apply(own(), chunk);
    }
  }
  return { conversationId, settlements, position, messages: messages ?? c.messages };
}

function after(a: Position, b: Position): boolean {
  return a.batch > b.batch || (a.batch === b.batch && a.index > b.index);
}

function apply(messages: Message[], chunk: Exclude<Chunk, { type: 'conversation-reset' | 'submission-settled' }>) {
  switch (chunk.type) {
    case 'message-appended':
      messages.push(chunk.message);
      return;
    case 'message-started': {
      if (find(messages, chunk.messageId) >= 0) return;
      const { messageId: id, submissionId, turnId, metadata } = chunk;
      const message: Message = { id, role: 'assistant', purpose: 'assistant', display: 'visible', parts: [] };
      if (submissionId) message.submissionId = submissionId;
      if (turnId) message.turnId = turnId;
      if (metadata) message.metadata = metadata;
      messages.push(message);
      return;
    }
    case 'message-metadata':
      change(messages, chunk.messageId, (m) => ({ ...m, metadata: merge(m.metadata ?? {}, chunk.metadata) as Record<string, unknown> }));
      return;
    case 'data-part':
      change(messages, chunk.messageId, (m) => ({ ...m, parts: written(m.parts, { type: `data-${chunk.name}`, data: chunk.data }) }));
      return;
    case 'message-delta':
      change(messages, chunk.messageId, (m) => ({ ...m, parts: say(m.parts, chunk.kind, chunk.delta) }));
      return;
    case 'tool-input': {
      const { toolName, toolCallId, input } = chunk;
      change(messages, chunk.messageId, (m) => ({
        ...m, parts: [...closed(m.parts), { type: 'dynamic-tool', toolName, toolCallId, input, state: 'input-available' }],
      }));
      return;
    }
    case 'tool-output':
      finish(messages, chunk.toolCallId, { state: 'output-available', output: chunk.output, ...timed(chunk) });
      return;
    case 'tool-output-error':
      finish(messages, chunk.toolCallId, { state: 'output-error', errorText: chunk.errorText, ...timed(chunk) });
      return;
    case 'message-completed':
      change(messages, chunk.messageId, (m) => ({ ...m, parts: closed(m.parts) }));
  }
}

const timed = (chunk: { durationMs?: number }) => (chunk.durationMs === undefined ? {} : { durationMs: chunk.durationMs });

function find(messages: Message[], id: string): number {
  return messages.findLastIndex((m) => m.id === id);
}

function change(messages: Message[], id: string, how: (m: Message) => Message) {
  const at = find(messages, id);
  if (at >= 0) messages[at] = how(messages[at]!);
}

/** Parts with one data part per name, at the place of the first write. */
function written(parts: Part[], part: Part): Part[] {
  const at = parts.findIndex((p) => p.type === part.type);
  return at < 0 ? [...parts, part] : parts.with(at, part);
}

function say(parts: Part[], kind: 'text' | 'reasoning', delta: string): Part[] {
  const last = parts.at(-1);
  if (last?.type === kind && 'text' in last && last.state === 'streaming') {
    return [...parts.slice(0, -1), { ...last, text: last.text + delta }];
  }
  return [...closed(parts), { type: kind, text: delta, state: 'streaming' }];
}

/** Parts without open text. */
function closed(parts: Part[]): Part[] {
  if (!parts.some((p) => 'text' in p && p.state === 'streaming')) return parts;
  return parts.map((p) => ('text' in p ? { ...p, state: 'done' } : p));
}

function finish(messages: Message[], call: string, outcome: Partial<ToolPart>) {
  const own = (p: Part) => p.type === 'dynamic-tool' && (p as ToolPart).toolCallId === call;
  const at = messages.findLastIndex((m) => m.parts.some(own));
  if (at < 0) return;
  const m = messages[at]!;
  messages[at] = { ...m, parts: m.parts.map((p) => (own(p) ? ({ ...p, ...outcome } as ToolPart) : p)) };
}

function merge(a: unknown, b: unknown): unknown {
  if (!isObject(a) || !isObject(b)) return b;
  const out: Record<string, unknown> = { ...a };
  // No name of a vendor reaches a prototype: the spread makes all of them own properties.
  for (const [name, value] of Object.entries(b)) {
    const before = Object.hasOwn(out, name) ? out[name] : undefined;
    Object.defineProperty(out, name, { value: merge(before, value), enumerable: true, writable: true, configurable: true });
  }
  return out;
}

const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v);
