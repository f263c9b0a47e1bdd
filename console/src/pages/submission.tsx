import { useEffect, useRef, useState } from 'preact/hooks';
import type { Server } from '../client/agents';
import { api, usePolled, type Batch, type Records, type Request, type Said, type Timeline } from '../client/dev';
import { getJSON } from '../client/http';
import { bytes, count, counted, dollars, json, took, when } from '../format';
import { Code } from '../markdown';
import { format } from '../route';
import { Figures, Trouble } from './parts';
import { save, standalone } from './save';
import { cached, difference, label, lasted, lines, note, place, requestsOf, span, stateOf, ticks, type Line } from './trace';

/** The timeline of a submission. */
export function SubmissionPage({ id, server }: { id: string; server: Server }) {
  const { value: t, error } = usePolled<Timeline>(api('submission', { id }), 2_000);
  const shown = useRef<HTMLDivElement>(null);
  const [whole, setWhole] = useState(false);
  useEffect(() => {
    if (!whole || !shown.current) return;
    // Everything is rendered now, folded or not.
    save(`${id}.html`, standalone(`Timeline of ${id}`, shown.current));
    setWhole(false);
  }, [whole]);
  const mount = t && server.agents.find((a) => a.name === t.agent)?.mounts[0];
  return (
    <div class="page">
      <Trouble error={error} />
      {t && (
        <>
          <p class="toolbar">
            {mount && <a href={format({ page: 'chat', open: [{ mount, id: t.id }] })}>Conversation {t.id}</a>}
            <button type="button" onClick={() => setWhole(true)}>Save as one file</button>
          </p>
          <div ref={shown} class="saved"><Shown t={t} whole={whole} /></div>
        </>
      )}
    </div>
  );
}

function Shown({ t, whole }: { t: Timeline; whole: boolean }) {
  const all = lines(t.trace);
  const end = span(all);
  const [window, setWindow] = useState<{ from: number; to: number }>();
  const now = window ?? { from: 0, to: end };
  const zoom = (by: number) => {
    const middle = (now.from + now.to) / 2;
    const half = Math.max(0.5, ((now.to - now.from) / 2) * by);
    setWindow(half * 2 >= end ? undefined : { from: Math.max(0, middle - half), to: Math.min(end, middle + half) });
  };
  const root = t.trace;
  const u = root.usage;
  return (
    <>
      <h1 class="wrap said">{t.body?.text ? <span dir="auto">{t.body.text.slice(0, 200)}</span> : root.id}</h1>
      <p class="facts">
        <span class={`state ${root.state}`}>{stateOf(root) || root.state}</span><span>{root.id}</span><span>{t.agent} / {t.id}</span>
        {root.start && <time dateTime={root.start}>{when(root.start)}</time>}<span>{took(root.durationMs)}{['running', 'queued'].includes(root.state) && ' so far'}</span>
        {u && <><span>{counted(u.input + u.cacheRead + u.cacheWrite, 'token')} in, {u.output.toLocaleString('en-US')} out</span><span>cache {cached(root)}</span>{u.cost.total > 0 && <span>{dollars(u.cost.total)}</span>}</>}
      </p>
      {t.missing && <p class="problem" role="alert">Prompts and failed calls are missing: {t.missing}</p>}
      {root.error && root.state !== 'aborted' && <p class="problem">{root.error.message} <code>{root.error.type}</code></p>}
      {root.state === 'aborted' && <p class="notice">Aborted by a request. The reply up to then is kept.</p>}
      <p class="toolbar">
        <button type="button" onClick={() => zoom(0.5)}>Zoom in</button><button type="button" onClick={() => zoom(2)}>Zoom out</button>
        <button type="button" disabled={!window} onClick={() => setWindow(undefined)}>Whole</button>
        <span class="dim">{took(now.from)} to {took(now.to)}</span>
      </p>
      <div class="axis" aria-hidden="true"><span class="bars">{ticks(now).map((at) => <span key={at} style={{ left: `${(100 * (at - now.from)) / (now.to - now.from)}%` }}>{took(at)}</span>)}</span></div>
      <ol class="trace">
        {all.map((l) => <Step key={l.key} line={l} t={t} window={now} whole={whole} zoom={() => setWindow({ from: l.from, to: Math.max(l.to, l.from + 1) })} />)}
      </ol>
      <details class="fold">
        <summary>As a table</summary>
        <Figures last head={['Step', 'Start', 'Took', 'Tokens in', 'Out', 'Cache', 'Cost', 'Note']} rows={all.map((l) => [
          <span style={{ paddingInlineStart: `${l.depth}rem` }}>{label(l.node)}</span>, `+${took(l.from)}`, lasted(l.node),
          ...tokens(l), [stateOf(l.node), note(l.node)].filter(Boolean).join(', '),
        ])} />
      </details>
      <RecordsOf t={t} />
    </>
  );
}

function tokens({ node }: Line): string[] {
  const u = node.usage;
  return u ? [count(u.input + u.cacheRead + u.cacheWrite), count(u.output), cached(node), dollars(u.cost.total)] : ['', '', '', ''];
}

type StepProps = { line: Line; t: Timeline; window: { from: number; to: number }; whole: boolean; zoom: () => void };

function Step({ line, t, window, whole, zoom }: StepProps) {
  const [open, setOpen] = useState(false);
  const { node, depth } = line;
  const at = place(line, window);
  return (
    <li>
      <details open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
        <summary>
          <span class="label" style={{ paddingInlineStart: `${Math.min(depth, 12) * 0.8}rem` }}>{label(node)}{stateOf(node) && <span class={`state ${node.state}`}> {stateOf(node)}</span>}</span>
          <span class="bars">{ticks(window).map((t) => <i key={t} style={{ left: `${(100 * (t - window.from)) / (window.to - window.from)}%` }} />)}{at && <span class={`timebar ${node.kind} ${node.state}`} style={{ left: `${at.left}%`, width: `max(2px, ${at.width}%)` }} />}</span>
          <span class="length">{lasted(node)}</span>
        </summary>
        {(open || whole) && (
          <div class="inside">
            <p class="facts"><span>+{took(line.from)}</span>{node.start && <span>{when(node.start)}</span>}{node.id && <span>{node.id}</span>}<span>{note(node)}</span><button type="button" class="quiet" onClick={zoom}>Zoom to it</button></p>
            {node.usage && <p class="facts"><span>{tokens(line)[0]} tokens in</span><span>{tokens(line)[1]} out</span><span>cache {tokens(line)[2]}</span>{node.usage.cost.total > 0 && <span>{tokens(line)[3]}</span>}</p>}
            {node.error && <Code text={json(node.error)} lang="error" />}
            {node.kind === 'submission' && t.body && <Text said={t.body} name="Message" />}
            {node.kind === 'turn' && requestsOf(t, node.id ?? '').map((r, i) => <Prompted key={i} {...r} />)}
            {node.kind === 'tool' && <><Text said={t.calls[node.id ?? '']?.args} name="Input" /><Text said={t.calls[node.id ?? '']?.result} name="Output" /></>}
          </div>
        )}
      </details>
    </li>
  );
}

function Text({ said, name }: { said: Said | undefined; name: string }) {
  if (!said) return null;
  return (
    <>
      <h4>{name}, {bytes(said.bytes)}{said.truncated && ', of which this is the beginning'}</h4>
      {said.text === undefined ? <p class="dim">Events of this agent do not include content.</p> : <Code text={said.text} />}
    </>
  );
}

function Prompted({ request: r, before }: { request: Request; before?: Request }) {
  const about = `${r.providerId}/${r.requestedModel}, ${counted(r.messageCount ?? 0, 'exchange')}, ${counted(r.toolCount ?? 0, 'tool')}, ${bytes(r.inputBytes ?? 0)}`;
  if (!r.input) return <p class="dim">{about}. The prompt was not kept.</p>;
  const d = difference(before?.input, r.input);
  const fresh = d.messages.filter((m) => m.how === 'new').length;
  return (
    <>
      <h4>Prompt: {about}{r.inputTruncated && '; only its newest part is shown'}</h4>
      <p class="dim">{before ? `New since the previous call: ${counted(fresh, 'message')}; the instructions are ${d.system === 'same' ? 'the same' : 'others'}.` : 'The first call.'}</p>
      {r.input.systemPrompt && <details class="fold" open={d.system !== 'same'}><summary>Instructions {d.system === 'changed' && <span class="tag">changed</span>}</summary><Code text={r.input.systemPrompt} /></details>}
      {d.messages.map((m, i) => (
        <details class={`fold change ${m.how}`} key={i} open={m.how === 'new'}>
          <summary>{m.role} <span class="tag">{m.how}</span> <span class="dim">{bytes(new Blob([m.text]).size)}</span></summary>
          <Code text={m.text} />
        </details>
      ))}
    </>
  );
}

/** The batches of a submission as they are stored, by offset. */
function RecordsOf({ t }: { t: Timeline }) {
  const [batches, setBatches] = useState<Batch[]>([]);
  const [error, setError] = useState('');
  const [more, setMore] = useState(true);
  const load = async () => {
    const from = (batches.at(-1)?.seq ?? t.first - 1) + 1;
    try {
      const next = await getJSON<Records>(api('records', { agent: t.agent, id: t.id, from: String(from) }));
      const own = next.batches.filter((b) => b.seq <= t.last);
      setBatches([...batches, ...own]);
      setMore(own.length > 0 && (own.at(-1)?.seq ?? t.last) < t.last);
      setError('');
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e));
    }
  };
  return (
    <details class="fold" onToggle={(e) => e.currentTarget.open && batches.length === 0 && void load()}>
      <summary>Records, batches {t.first} to {t.last}</summary>
      {error && <p class="problem" role="alert">{error}</p>}
      {batches.map((b) => (
        <section key={b.seq}><h4>{b.offset}</h4><Code text={b.records.map((r) => JSON.stringify(r)).join('\n')} lang="json" /></section>
      ))}
      {more && batches.length > 0 && <button type="button" onClick={load}>More</button>}
    </details>
  );
}
