import { useEffect, useMemo, useReducer, useState } from 'preact/hooks';
import type { Agent } from '../client/agents';
import { Follower, type Pending, type View } from '../client/follow';
import type { Attachment, Delivery, Message, Settlement } from '../client/types';
import { begun, isFresh } from '../route';
import { Composer } from './composer';
import { VirtualList, type Row } from './list';
import { Copies, MessageView } from './parts';
import { facts, remedy } from './remedy';
import { useInitialData, type Schema } from './schema';
import { stopping } from './snippets';

type Props = { agent: Agent; mount: string; id: string; close?: (() => void) | undefined; examples?: readonly string[]; traced?: boolean };

/** One conversation. */
export function Chat({ agent, mount, id, close, examples = [], traced = false }: Props) {
  const url = conversationURL(mount, id);
  const follower = useMemo(() => new Follower(url, isFresh(id)), [url]);
  const view = useView(follower);
  const initial = useInitialData(view.phase === 'absent' ? (agent.initialData as Schema | undefined) : undefined);
  const [problem, setProblem] = useState('');
  // What is wrong with the form is said once somebody wanted to send it, until it is right.
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
  const rows = useMemo(() => rowsOf(view, follower, traced), [view, traced]);
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
      <Composer place={url} busy={busy} send={send} stop={stop} label={`Message to ${agent.name}`} />
    </section>
  );
}

/** The address of a conversation, as this page reaches it. */
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

function announcement(view: View): string {
  if (owed(view).length > 0) return 'The agent answers.';
  const last = view.conversation.settlements.at(-1);
  return last ? `The last message was ${last.outcome}.` : '';
}

function Connection({ view }: { view: View }) {
  const words = { loading: 'Loading…', absent: 'New', live: 'Live', away: 'Reconnecting…', refused: 'Refused' }[view.phase];
  const error = view.error;
  return (
    <span class={`connection ${view.phase}`} title={error ? `${error.message} ${error.details}` : ''}>
      {words}{view.phase === 'refused' && error && `: ${error.message} ${error.details}`}
    </span>
  );
}

type EmptyProps = { agent: Agent; view: View; examples: readonly string[]; send: (text: string) => void };

function Empty({ agent, view, examples, send }: EmptyProps) {
  return (
    <div class="empty">
      <p>{agent.description || `Talk to ${agent.name}.`}</p>
      <p class="dim">{agent.model && `Model ${agent.model}. `}{view.phase === 'loading' ? 'Loading…' : 'Nothing was said here yet.'}</p>
      {examples.length > 0 && (
        <p class="examples">{examples.map((text) => <button type="button" key={text} onClick={() => send(text)}>{text}</button>)}</p>
      )}
    </div>
  );
}

type Shown = Pick<Follower, 'url' | 'begun' | 'again' | 'forget'>;

/** The rows of a conversation: its messages, outcomes that are to be told, and what is on its way. */
export function rowsOf(view: View, follower: Shown, traced = false): Row[] {
  const { messages, settlements } = view.conversation;
  const told = new Map<string, Settlement>();
  for (const s of settlements) if (s.outcome !== 'completed') told.set(s.submissionId, s);
  const last = new Map<string, string>();
  for (const m of messages) if (m.submissionId && told.has(m.submissionId) && shown(m, told)) last.set(m.submissionId, m.id);
  const rows: Row[] = [];
  for (const m of messages) {
    if (!shown(m, told)) continue;
    rows.push({ key: m.id, draw: () => <MessageView message={m} url={follower.url} traced={traced} begun={follower.begun.get(m.submissionId ?? '')} /> });
    if (m.submissionId && last.get(m.submissionId) === m.id) {
      const s = told.get(m.submissionId)!;
      rows.push({ key: `settled ${s.submissionId}`, draw: () => <Outcome settlement={s} url={follower.url} /> });
    }
  }
  const sent = new Set(messages.map((m) => m.submissionId));
  for (const p of view.pending) {
    if (p.submissionId && sent.has(p.submissionId)) continue;
    rows.push({ key: p.delivery.idempotencyKey, draw: () => <OnItsWay pending={p} follower={follower} /> });
  }
  return rows;
}

/** Whether a message is shown: what the runtime says of an outcome is told with that. */
function shown(m: Message, told: Map<string, Settlement>): boolean {
  if (m.display === 'hidden') return false;
  if (m.purpose !== 'advisory' || !m.submissionId) return true;
  const part = m.parts[0];
  return !(part && 'text' in part && told.get(m.submissionId)?.error?.message === part.text);
}

function Outcome({ settlement: s, url }: { settlement: Settlement; url: string }) {
  const more = facts(s);
  return (
    <div class={`outcome ${s.outcome}`} role="note">
      <b>{s.outcome === 'failed' ? 'Failed' : 'Aborted'}</b>{s.error && <>: {s.error.message} <code>{s.error.type}</code></>}
      {more && <span class="dim"> {more}</span>}
      {remedy(s) && <p>{remedy(s)}</p>}
      {s.outcome === 'aborted' && <p class="actions">Stop <Copies of={(secured) => stopping({ url, secured })} /></p>}
    </div>
  );
}

function OnItsWay({ pending: p, follower }: { pending: Pending; follower: Shown }) {
  const key = p.delivery.idempotencyKey;
  return (
    <article class="message user pending" aria-label="You">
      <header><span class="who">You</span></header>
      <p class="plain" dir="auto">{p.delivery.body}</p>
      {p.delivery.attachments?.map((a, i) => <p class="activity" key={i}>{a.filename}</p>)}
      {p.error
        ? (
          <div class="outcome failed" role="alert">
            {p.error.passes ? 'Not sent yet, it is tried again. ' : 'Not sent. '}{p.error.message} {p.error.details}
            <p>
              {!p.error.passes && <button type="button" onClick={() => follower.again(key)}>Send again</button>}{' '}
              <button type="button" onClick={() => follower.forget(key)}>Forget it</button>
            </p>
          </div>
        )
        : <p class="dim">{p.submissionId ? 'Sent' : 'Sending…'}</p>}
    </article>
  );
}
