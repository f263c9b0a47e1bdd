import { useEffect, useState } from 'preact/hooks';
import { access, request } from '../client/http';
import type { DataPart, FilePart, Message, Part, TextPart, ToolPart } from '../client/types';
import { CopyButton } from '../copybutton';
import { bytes, clock, json, madeAt, took, when } from '../format';
import { Code, Markdown } from '../markdown';
import { format } from '../route';
import { memo } from '../memo';
import { snippets, type Snippet } from './snippets';

/** begun is the initial data, if this page created the conversation with the message. */
type Props = { message: Message; url: string; traced: boolean; begun: unknown; queued?: boolean };

/** One message of a conversation, whose address is url. */
export const MessageView = memo(function MessageView({ message, url, traced, begun, queued = false }: Props) {
  if (message.role === 'system') return <Activity message={message} />;
  const name = message.role === 'user' ? 'You' : 'Agent';
  const parts = joined(message.parts);
  const at = madeAt(message.id);
  return (
    <article class={`message ${message.role}${queued ? ' queued' : ''}`} aria-label={name}>
      <header>
        <span class="who">{name}</span>
        {at && <time class="dim" dateTime={new Date(at).toISOString()} title={new Date(at).toLocaleString()}>{clock(at)}</time>}
        {queued && <span class="tag">queued</span>}
        <Actions message={message} url={url} traced={traced} begun={begun} />
      </header>
      {parts.map((part, i) => <PartView key={i} part={part} url={url} plain={message.role === 'user'} />)}
      {message.metadata && Object.keys(message.metadata).length > 0 && (
        <details class="fold"><summary>Metadata</summary><Code text={json(message.metadata)} lang="json" /></details>
      )}
    </article>
  );
});

/**
 * Joins adjacent texts: an interrupted reply continues in another part, in the middle of a sentence. Text
 * after a tool call is a separate text.
 */
export function joined(parts: readonly Part[]): Part[] {
  const out: Part[] = [];
  for (const part of parts) {
    const last = out.at(-1);
    if (last && last.type === part.type && (part.type === 'text' || part.type === 'reasoning')) {
      const [a, b] = [last as TextPart, part as TextPart];
      out[out.length - 1] = { ...b, text: a.text + b.text };
    } else out.push(part);
  }
  return out;
}

/** The text of a message. */
export const textOf = (message: Message): string =>
  joined(message.parts).filter((p): p is TextPart => p.type === 'text').map((p) => p.text.trim()).filter(Boolean).join('\n\n');

function Actions({ message, url, traced, begun }: Props) {
  const text = message.role === 'user' ? message.parts.map((p) => (p.type === 'text' ? (p as TextPart).text : '')).join('') : textOf(message);
  const images = message.parts.filter((p) => p.type === 'file').length;
  return (
    <span class="actions">
      {text && <CopyButton text={text} label="Copy" />}
      {message.role === 'user' && message.purpose === 'user' && (
        <Copies of={(at) => snippets({ url, ...at }, { body: text, initialData: begun, images })} />
      )}
      {traced && message.role === 'user' && message.submissionId && <a class="quiet" href={format({ page: 'submission', id: message.submissionId })}>Timeline</a>}
    </span>
  );
}

/** Copies an action to the clipboard as a command or a program. */
export function Copies({ of }: { of: (at: ReturnType<typeof access>) => Snippet[] }) {
  return <>{of(access()).map((s) => <CopyButton key={s.name} text={s.text} label={`as ${s.name}`} title={`Copy as ${s.name}`} />)}</>;
}

/** A signal, or an advisory of the runtime. */
function Activity({ message }: { message: Message }) {
  const text = message.parts.map((p) => ('text' in p ? p.text : '')).join('\n');
  const about = message.signal?.tagName ?? message.signal?.type ?? (message.purpose === 'dispatch' ? 'signal' : 'runtime');
  const attributes = Object.entries(message.signal?.attributes ?? {}).map(([k, v]) => `${k}=${v}`).join(' ');
  return <p class="activity" dir="auto"><span class="tag">{about}</span> {attributes && <code>{attributes}</code>} {text}</p>;
}

const PartView = memo(function PartView({ part, url, plain }: { part: Part; url: string; plain: boolean }) {
  switch (part.type) {
    case 'text':
      // User text is shown unchanged.
      return plain ? <p class="plain" dir="auto">{(part as TextPart).text}</p> : <Markdown text={(part as TextPart).text} />;
    case 'reasoning':
      return <Reasoning part={part as TextPart} />;
    case 'dynamic-tool':
      return <Tool part={part as ToolPart} />;
    case 'file':
      return <Attachment part={part as FilePart} url={url} />;
    default:
      return <Data part={part as DataPart} />;
  }
});

function Reasoning({ part }: { part: TextPart }) {
  return (
    <details class="fold">
      <summary>{part.state === 'streaming' ? 'Thinking…' : 'Reasoning'}</summary>
      <p class="plain" dir="auto">{part.text}</p>
    </details>
  );
}

/** The subagent of a task, if the call delegates one. */
function taskOf(part: ToolPart): string {
  const { agent } = (part.toolName === 'task' && part.input ? part.input : {}) as { agent?: unknown };
  return typeof agent === 'string' ? ` ${agent}` : '';
}

function Tool({ part }: { part: ToolPart }) {
  const state = { 'input-available': 'running', 'output-available': 'done', 'output-error': 'failed' }[part.state];
  return (
    <details class={`fold tool ${state}`} open={state === 'failed'}>
      <summary>
        <span class="tag">tool</span> <b>{part.toolName}</b>{taskOf(part)} <span class={`state ${state}`}>{state}</span>
        {part.durationMs !== undefined && <span class="dim"> {took(part.durationMs)}</span>}
      </summary>
      <h4>Input</h4>
      <Code text={json(part.input)} lang="json" />
      {part.state === 'output-available' && <><h4>Output</h4><Code text={json(part.output)} lang={typeof part.output === 'string' ? '' : 'json'} /></>}
      {part.state === 'output-error' && <><h4>Error</h4><Code text={part.errorText ?? ''} /></>}
    </details>
  );
}

type Wait = { name: string; state: string; until?: string };

/** A wait of a tool for a signal, which the runtime sends as data. */
function waitOf(part: Part): Wait | undefined {
  const data = part.type.startsWith('data-wait-') ? ((part as DataPart).data as Wait | null) : undefined;
  return typeof data?.name === 'string' ? data : undefined;
}

function Data({ part }: { part: DataPart }) {
  const wait = waitOf(part);
  if (wait) {
    const state = wait.state === 'waiting' ? 'running' : wait.state === 'signal' ? 'done' : 'failed';
    return (
      <p class="fold wait">
        <span class="tag">wait</span> <b>{wait.name}</b> <span class={`state ${state}`}>{wait.state === 'signal' ? 'answered' : wait.state}</span>
        {wait.state === 'waiting' && wait.until && <span class="dim"> until {when(wait.until)}</span>}
      </p>
    );
  }
  return (
    <details class="fold data" open>
      <summary><span class="tag">data</span> <b>{part.type.slice('data-'.length)}</b></summary>
      <Code text={json(part.data)} lang="json" />
    </details>
  );
}

/** The bytes of an attachment, fetched with the token of the page. */
function Attachment({ part, url }: { part: FilePart; url: string }) {
  const [at, setAt] = useState('');
  const [failed, setFailed] = useState('');
  useEffect(() => {
    const life = new AbortController();
    let made = '';
    const load = async () => {
      try {
        const response = await request(`${url}/attachments/${encodeURIComponent(part.id!)}`, { signal: life.signal });
        made = URL.createObjectURL(await response.blob());
        if (life.signal.aborted) URL.revokeObjectURL(made);
        else setAt(made);
      } catch (error) {
        if (!life.signal.aborted) setFailed(error instanceof Error ? error.message : 'It cannot be shown.');
      }
    };
    if (part.id) void load();
    return () => {
      life.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [url, part.id]);
  const name = part.filename ?? part.mediaType;
  const about = `${name}${part.size === undefined ? '' : `, ${bytes(part.size)}`}`;
  if (failed) return <p class="activity">{about}: {failed}</p>;
  if (!at) return <p class="activity">{about}</p>;
  return (
    <figure class="image">
      {part.mediaType.startsWith('image/') && <img src={at} alt={name} />}
      <figcaption><a href={at} download={name}>{about}</a></figcaption>
    </figure>
  );
}
