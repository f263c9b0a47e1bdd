import { useEffect, useMemo, useReducer, useState } from 'preact/hooks';
import type { Agent } from '../client/agents';
import { Follower, type Pending, type View } from '../client/follow';
import { api, type Listed, type Node, type Submission, type Timeline } from '../client/dev';
import { getJSON } from '../client/http';
import type { Attachment, DataPart, Delivery, Message, Part, Settlement, ToolPart } from '../client/types';
import { count, counted, dollars, madeAt, took } from '../format';
import { begun, format, isFresh } from '../route';
import { Composer } from './composer';
import { VirtualList, type Row } from './list';
import { Copies, MessageView } from './parts';
import { facts, remedy } from './remedy';
import { useInitialData, type Schema } from './schema';
import { stopping } from './snippets';

type Props = { agent: Agent; mount: string; id: string; close?: (() => void) | undefined; examples?: readonly string[]; traced?: boolean; focused?: boolean };

/** One conversation. */
export function Chat({ agent, mount, id, close, examples = [], traced = false, focused = false }: Props) {
  const url = conversationURL(mount, id);
  const follower = useMemo(() => new Follower(url, isFresh(id)), [url]);
  const view = useView(follower);
  const initial = useInitialData(view.phase === 'absent' ? (agent.initialData as Schema | undefined) : undefined);
  const [problem, setProblem] = useState('');
  // Mistakes of the form are shown from the first attempt to send it until they are corrected.
  const [tried, setTried] = useState(false);
  const busy = owed(view).length > 0;

  const send = (body: string, attachments: Attachment[]): boolean => {
    const { value, problem: wrong } = initial.result;
    setTried(wrong !== undefined);
    if (wrong) return false;
    const delivery: Delivery = { kind: 'user', body, idempotencyKey: crypto.randomUUID() };
    if (attachments.length > 0) delivery.attachments = attachments;
    if (value !== undefined) delivery.initialData = value;
    begun(id);
    follower.send(delivery);
    return true;
  };
  const stop = () => {
    follower.abort().then(() => setProblem(''), (e: Error) => setProblem(`It could not be stopped. ${e.message}`));
  };
  const facts = useFacts(traced, agent.name, id, view.conversation.settlements.length);
  const rows = useMemo(() => rowsOf(view, follower, traced, facts), [view, traced, facts]);
  return (
    <section class="chat" aria-label={`${agent.name}, ${id}`}>
      <header class="bar">
        <h2><span>{agent.name}</span> <small class="dim">{id}</small></h2>
        <Connection view={view} />
        {close && <button type="button" class="quiet" aria-label={`Close ${id}`} onClick={close}>×</button>}
      </header>
      {rows.length > 0
        ? <VirtualList rows={rows} label={`Messages of ${id}`} />
        : <Empty agent={agent} view={view} examples={examples} send={(text) => send(text, [])} />}
      <p class="status" role="status">{announcement(view)}</p>
      {initial.form}
      {tried && initial.result.problem && <p class="problem" role="alert">{initial.result.problem}</p>}
      {problem && <p class="problem" role="alert">{problem}</p>}
      <Composer place={url} busy={busy} send={send} stop={stop} label={`Message to ${agent.name}`} focused={focused && !initial.form} />
    </section>
  );
}

/** The URL of a conversation for this page. */
export function conversationURL(mount: string, id: string): string {
  return `${location.origin}${mount === '/' ? '' : mount}/${encodeURIComponent(id)}`;
}

function useView(follower: Follower): View {
  const [, draw] = useReducer((n: number) => n + 1, 0);
  useEffect(() => {
    const off = follower.subscribe(() => draw(0));
    draw(0);
    return () => {
      off();
      follower.close();
    };
  }, [follower]);
  return follower.view;
}

/** The submissions that have no outcome yet. */
export function owed(view: View): string[] {
  const settled = new Set(view.conversation.settlements.map((s) => s.submissionId));
  const open = new Set<string>();
  for (const m of view.conversation.messages) {
    if (m.submissionId && !settled.has(m.submissionId)) open.add(m.submissionId);
  }
  return [...open];
}

/** The stage of a submission without an outcome. */
export type Stage = 'queued' | 'working' | 'talking' | 'waiting';

/** The stages of the submissions that have no outcome. One runs at a time, in addition to waiting ones. */
export function stages(view: View): Map<string, Stage> {
  const out = new Map<string, Stage>();
  let busy = false;
  for (const id of owed(view)) {
    const reply = view.conversation.messages.findLast((m) => m.submissionId === id && m.role === 'assistant');
    const stage: Stage = reply ? stageOf(reply) : busy ? 'queued' : 'working';
    out.set(id, stage);
    busy ||= stage !== 'waiting';
  }
  return out;
}

function stageOf(reply: Message): Stage {
  const waits = (p: Part) => p.type.startsWith('data-wait-') && ((p as DataPart).data as { state?: string } | null)?.state === 'waiting';
  if (reply.parts.some(waits)) return 'waiting';
  const last = reply.parts.at(-1);
  if (last && 'text' in last && last.type === 'text' && last.state === 'streaming') return 'talking';
  // A running call shows its state itself.
  return reply.parts.some((p) => p.type === 'dynamic-tool' && (p as ToolPart).state === 'input-available') ? 'talking' : 'working';
}

/** The records of a conversation's submissions, read again after each outcome. */
function useFacts(traced: boolean, agent: string, id: string, outcomes: number): ReadonlyMap<string, Submission> {
  const [facts, set] = useState<ReadonlyMap<string, Submission>>(new Map());
  useEffect(() => {
    if (!traced || outcomes === 0) return;
    const life = new AbortController();
    getJSON<Listed>(api('conversation', { agent, id }), life.signal).then(
      (c) => set(new Map(c.submissions.map((s) => [s.id, s]))),
      () => {}, // The chat works without it.
    );
    return () => life.abort();
  }, [traced, agent, id, outcomes]);
  return facts;
}

function announcement(view: View): string {
  if (owed(view).length > 0) return 'The agent is working.';
  const last = view.conversation.settlements.at(-1);
  return last ? `The last message ${last.outcome === 'completed' ? 'is answered' : last.outcome === 'failed' ? 'failed' : 'was stopped'}.` : '';
}

function Connection({ view }: { view: View }) {
  const words = { loading: 'Loading…', absent: 'New', live: 'Live', away: 'Reconnecting…', refused: 'Refused' }[view.phase];
  const error = view.error;
  return (
    <span class={`connection ${view.phase}`} title={error ? error.text : ''}>
      {words}{view.phase === 'refused' && error && `: ${error.text}`}
    </span>
  );
}

type EmptyProps = { agent: Agent; view: View; examples: readonly string[]; send: (text: string) => void };

function Empty({ agent, view, examples, send }: EmptyProps) {
  return (
    <div class="empty">
      <p>{agent.description || `Talk to ${agent.name}.`}</p>
      <p class="dim">{agent.model && `Model ${agent.model}. `}{view.phase === 'loading' ? 'Loading…' : 'No messages yet.'}</p>
      {examples.length > 0 && (
        <p class="examples">{examples.map((text) => <button type="button" key={text} onClick={() => send(text)}>{text}</button>)}</p>
      )}
    </div>
  );
}

type Shown = Pick<Follower, 'url' | 'begun' | 'again' | 'forget'>;

/** The rows of a conversation: its messages, reported outcomes, and pending messages. */
export function rowsOf(view: View, follower: Shown, traced = false, facts: ReadonlyMap<string, Submission> = new Map()): Row[] {
  const { messages, settlements } = view.conversation;
  const told = new Map<string, Settlement>();
  for (const s of settlements) if (s.outcome !== 'completed') told.set(s.submissionId, s);
  const last = new Map<string, string>();
  for (const m of messages) if (m.submissionId && told.has(m.submissionId) && shown(m, told)) last.set(m.submissionId, m.id);
  const rows: Row[] = [];
  const open = stages(view);
  const replies = new Map<string, string>();
  for (const m of messages) if (m.role === 'assistant' && m.submissionId && facts.has(m.submissionId)) replies.set(m.submissionId, m.id);
  for (const m of messages) {
    if (!shown(m, told)) continue;
    const queued = m.role === 'user' && open.get(m.submissionId ?? '') === 'queued';
    rows.push({ key: m.id, draw: () => <MessageView message={m} url={follower.url} traced={traced} begun={follower.begun.get(m.submissionId ?? '')} queued={queued} /> });
    const known = replies.get(m.submissionId ?? '') === m.id && facts.get(m.submissionId ?? '');
    if (known) rows.push({ key: `facts ${known.id}`, draw: () => <Facts of={known} /> });
    if (m.submissionId && last.get(m.submissionId) === m.id) {
      const s = told.get(m.submissionId)!;
      rows.push({ key: `settled ${s.submissionId}`, draw: () => <Outcome settlement={s} url={follower.url} traced={traced} /> });
    }
    const id = m.submissionId ?? '';
    if (open.get(id) === 'working' && messages.findLast((l) => l.submissionId === id && shown(l, told)) === m) {
      rows.push({ key: `working ${id}`, draw: () => <Working id={id} /> });
    }
  }
  const sent = new Set(messages.map((m) => m.submissionId));
  for (const p of view.pending) {
    if (p.submissionId && sent.has(p.submissionId)) continue;
    rows.push({ key: p.delivery.idempotencyKey, draw: () => <OnItsWay pending={p} follower={follower} /> });
  }
  return rows;
}

/** Whether a message is shown: an advisory about an outcome is shown with the outcome. */
function shown(m: Message, told: Map<string, Settlement>): boolean {
  if (m.display === 'hidden') return false;
  if (m.purpose !== 'advisory' || !m.submissionId) return true;
  const part = m.parts[0];
  return !(part && 'text' in part && told.get(m.submissionId)?.error?.message === part.text);
}

/** An indicator that a reply is in progress before its first text. */
function Working({ id }: { id: string }) {
  const [since] = useState(Date.now);
  const [now, set] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const begun = madeAt(id);
  // The clock of the server may differ.
  const seconds = Math.floor((now - (begun !== undefined && begun <= since ? begun : since)) / 1_000);
  return <p class="working"><span class="dots" aria-hidden="true"><i /><i /><i /></span> Working{seconds >= 2 && <span class="dim"> {took(seconds * 1_000).replace(/\.00 s$/, ' s')}</span>}</p>;
}

/** The model, the time and the price of a reply. */
function Facts({ of: s }: { of: Submission }) {
  const input = s.input > 0 || s.output > 0;
  return (
    <p class="told dim">
      {s.model && <span>{s.model}</span>}
      {s.totalMs !== undefined && <span title={s.firstTokenMs ? `first token after ${took(s.firstTokenMs)}` : undefined}>{took(s.totalMs)}</span>}
      {input && <span title={`${counted(s.input, 'token')} in, ${counted(s.output, 'token')} out`}>{count(s.input)} → {count(s.output)} tokens</span>}
      {s.cost > 0 && <span>{dollars(s.cost)}</span>}
      <a href={format({ page: 'submission', id: s.id })}>Timeline</a>
    </p>
  );
}

type OutcomeProps = { settlement: Settlement; url: string; traced: boolean };

function Outcome({ settlement: s, url, traced }: OutcomeProps) {
  const more = facts(s);
  const causes = useCauses(traced && s.outcome === 'failed', s.submissionId);
  return (
    <div class={`outcome ${s.outcome}`} role="note">
      <b>{s.outcome === 'failed' ? 'Failed' : 'Stopped'}</b>{s.error && s.outcome === 'failed' && <>: {s.error.message} <code>{s.error.type}</code></>}
      {more && <span class="dim"> {more}</span>}
      {causes.map((text) => <p class="cause" key={text}>{text}</p>)}
      <p>{remedy(s)} {traced && s.outcome === 'failed' && <a href={format({ page: 'submission', id: s.submissionId })}>Timeline</a>}</p>
      {s.outcome === 'aborted' && <p class="actions">Stop <Copies of={(at) => stopping({ url, ...at })} /></p>}
    </div>
  );
}

/** The vendors' error messages of a failed submission, as far as events include them. */
function useCauses(wanted: boolean, id: string): string[] {
  const [causes, set] = useState<string[]>([]);
  useEffect(() => {
    if (!wanted) return;
    const life = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    // Events of calls arrive shortly after the outcome.
    const look = (again: number) => void getJSON<Timeline>(api('submission', { id }), life.signal).then((t) => {
      const found = causesOf(t.trace);
      set(found);
      if (found.length === 0 && again > 0) timer = setTimeout(() => look(again - 1), 1_000);
    }, () => {});
    look(3);
    return () => {
      life.abort();
      clearTimeout(timer);
    };
  }, [wanted, id]);
  return causes;
}

/** The message in the body of a vendor's response, or the body. */
function wordsOf(body: string): string {
  try {
    const { error, message } = JSON.parse(body) as { error?: { message?: unknown }; message?: unknown };
    const words = error?.message ?? message;
    return typeof words === 'string' ? words : body;
  } catch {
    return body;
  }
}

export function causesOf(n: Node): string[] {
  const own = n.kind === 'log' && n.error?.message ? [wordsOf(n.error.message)] : [];
  return [...new Set([...own, ...(n.children ?? []).flatMap(causesOf)])];
}

function OnItsWay({ pending: p, follower }: { pending: Pending; follower: Shown }) {
  const key = p.delivery.idempotencyKey;
  return (
    <article class="message user pending" aria-label="You">
      <header><span class="who">You</span><span class="tag">{p.error ? 'not sent' : p.submissionId ? 'sent' : 'sending'}</span></header>
      <p class="plain" dir="auto">{p.delivery.body}</p>
      {p.delivery.attachments?.map((a, i) => <p class="activity" key={i}>{a.filename}</p>)}
      {p.error
        ? (
          <div class="outcome failed" role="alert">
            {p.error.passes ? 'Not sent yet; the page retries. ' : 'Not sent. '}{p.error.text}
            <p>
              {!p.error.passes && <button type="button" onClick={() => follower.again(key)}>Send again</button>}{' '}
              <button type="button" onClick={() => follower.forget(key)}>Discard</button>
            </p>
          </div>
        )
        : null}
    </article>
  );
}
