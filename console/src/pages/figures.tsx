import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { Server } from '../client/agents';
import { api, usePolled, type Figures as Numbers, type Latency } from '../client/dev';
import { count, counted, dollars, took, when } from '../format';
import { format } from '../route';
import { Bars, Meter, Range, type Series } from './charts';
import { Figures, periods, Select, Trouble } from './parts';

/** The metrics of "parley stats", as charts and tables. */
export function FiguresPage({ server }: { server: Server }) {
  const [agent, setAgent] = useState('');
  const [period, setPeriod] = useState('');
  // The time is that of the choice, so that the address does not change.
  const since = useMemo(() => (period ? String(Date.now() - Number(period)) : ''), [period]);
  const { value: f, error } = usePolled<Numbers>(api('figures', { agent, since }), 5_000);
  return (
    <div class="page">
      <h1>Metrics</h1>
      <div class="choices">
        <Select label="Agent" value={agent} set={setAgent} options={[['all', ''], ...server.agents.map((a): [string, string] => [a.name, a.name])]} />
        <Select label="Period" value={period} set={setPeriod} options={periods} />
      </div>
      <Trouble error={error} />
      {f && (f.events === 0 ? <p>No events yet. Send a message to an agent.</p> : <All f={f} />)}
    </div>
  );
}

function All({ f }: { f: Numbers }) {
  const s = f.submissions;
  const settled = s.completed + s.failed + s.aborted;
  const share = (n: number) => (settled && n ? `${((100 * n) / settled).toFixed(1)} %` : '–');
  const cost = f.models.reduce((n, m) => n + m.cost, 0);
  const [input, output] = f.models.reduce(([a, b], m) => [a + m.input + m.cacheRead + m.cacheWrite, b + m.output], [0, 0]);
  const incidents: [number, string][] = [
    [f.recovered, 'attempts after a loss'], [f.recoveries, 'recovery actions'], [f.fences, 'fenced writers'], [f.compactions, 'compactions'], [f.compactionErrors, 'failed compactions'],
  ];
  const told = incidents.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`).join(', ');
  const waiting = s.queued - settled;
  return (
    <>
      <ul class="tiles">
        <Tile name="Messages" value={count(s.queued)} note={`${counted(f.conversations, 'conversation')}${waiting > 0 ? `, ${waiting} without an outcome` : ''}`} />
        <Tile name="Completed" value={share(s.completed)} note={[s.failed && `${count(s.failed)} failed`, s.aborted && `${count(s.aborted)} stopped`].filter(Boolean).join(', ') || 'no failures'} bad={s.failed > 0} />
        <Tile name="First token, p50" value={f.firstToken.count ? took(f.firstToken.p50) : '–'} note={f.firstToken.count ? `p90 ${took(f.firstToken.p90)}` : ''} />
        <Tile name="Outcome, p50" value={f.settlement.count ? took(f.settlement.p50) : '–'} note={f.settlement.count ? `p90 ${took(f.settlement.p90)}` : ''} />
        <Tile name="Tokens" value={count(input + output)} note={`${count(input)} in, ${count(output)} out`} />
        <Tile name="Cost" value={dollars(cost)} note={s.completed && cost ? `${dollars(cost / Math.max(settled, 1))} per message` : 'no priced calls'} />
      </ul>
      <Hours f={f} />
      <Latencies f={f} />
      <Models f={f} />
      <Tools f={f} />
      <h2>Errors</h2>
      <Figures texts={2} head={['Error', 'Of', 'Count', '']} rows={f.errors.map((e) => [e.type || '(no type)', e.event.replace(/_settled$/, ''), count(e.count), <Meter value={e.count} most={Math.max(...f.errors.map((o) => o.count))} />])} />
      <h2>Newest messages</h2>
      <Figures texts={3} head={['Begun', 'Conversation', 'Outcome', 'Took', 'Tokens', 'Cost']} rows={f.recent.map((r) => [
        <a href={format({ page: 'submission', id: r.submission })}>{when(r.begun)}</a>, [r.agent, r.instance].filter(Boolean).join(' / '),
        <span class={`state ${r.outcome ?? 'running'}`}>{r.outcome ?? 'running'}{r.error && r.outcome === 'failed' && `: ${r.error}`}</span>, r.outcome ? took(r.totalMs) : '–', count(r.input + r.cacheRead + r.cacheWrite + r.output), dollars(r.cost),
      ])} />
      <p class="dim">{counted(f.events, 'event')}, {f.first && when(f.first)} to {f.last && when(f.last)}{told && `; ${told}`}.</p>
    </>
  );
}

function Tile({ name, value, note, bad = false }: { name: string; value: string; note: ComponentChildren; bad?: boolean }) {
  return <li><span class="dim">{name}</span><b>{value}</b><small class={bad ? 'bad' : 'dim'}>{note}</small></li>;
}

/** The last 24 hours with events: outcomes and tokens, with a table of both. */
function Hours({ f }: { f: Numbers }) {
  const hours = filled(f.hours).slice(-24);
  const labels = hours.map((h) => new Date(h.hour).toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit' }));
  const of = (name: string, kind: string, value: (h: Numbers['hours'][number]) => number): Series => ({ name, kind, values: hours.map(value) });
  return (
    <>
      <h2>By hour</h2>
      <div class="charts">
        <section><h3>Outcomes</h3><Bars labels={labels} write={(n) => n.toLocaleString('en-US')} series={[of('completed', 'good', (h) => h.completed), of('failed', 'bad', (h) => h.failed), of('stopped', 'warn', (h) => h.aborted)]} /></section>
        <section><h3>Tokens</h3><Bars labels={labels} write={short} series={[of('in', 'soft', (h) => h.input + h.cacheRead + h.cacheWrite), of('out', 'accent', (h) => h.output)]} /></section>
      </div>
      <details class="fold">
        <summary>As a table</summary>
        <Figures head={['Hour', 'Queued', 'Completed', 'Failed', 'Stopped', 'Turns', 'In', 'Out', 'Cost']} rows={f.hours.slice(-24).map((h) => [
          when(h.hour), count(h.queued), count(h.completed), count(h.failed), count(h.aborted), count(h.turns), count(h.input), count(h.output), dollars(h.cost),
        ])} />
      </details>
    </>
  );
}

/** Hours including empty ones between them, up to a day before the newest. */
export function filled(hours: Numbers['hours']): Numbers['hours'] {
  const newest = hours.at(-1);
  if (!newest) return [];
  const by = new Map(hours.map((h) => [Date.parse(h.hour), h]));
  const end = Date.parse(newest.hour);
  const begin = Math.max(Math.min(Date.parse(hours[0]!.hour), end - 11 * 3_600_000), end - 23 * 3_600_000);
  const none = { queued: 0, completed: 0, failed: 0, aborted: 0, turns: 0, input: 0, output: 0, cacheRead: 0, cacheWrite: 0, reasoning: 0, cost: 0 };
  const all: Numbers['hours'] = [];
  for (let at = begin; at <= end; at += 3_600_000) all.push(by.get(at) ?? { ...none, hour: new Date(at).toISOString() });
  return all;
}

function Latencies({ f }: { f: Numbers }) {
  const all = ([['first token', f.firstToken], ['model call', f.turn], ['queue', f.queue], ['admission', f.admission], ['to the outcome', f.settlement]] as [string, Latency][]).filter(([, l]) => l.count > 0);
  const most = Math.max(...all.map(([, l]) => l.p99));
  return (
    <>
      <h2>Latency</h2>
      <Figures head={['', 'Count', 'p50 – p90 – p99', 'p50', 'p90', 'p99', 'max']} rows={all.map(([name, l]) => [name, count(l.count), <Range {...l} most={most} />, ...quantiles(l)])} />
    </>
  );
}

function Models({ f }: { f: Numbers }) {
  const most = Math.max(...f.models.map((m) => m.cost));
  return (
    <>
      <h2>Models</h2>
      <Figures texts={2} head={['Agent', 'Model', 'Turns', 'Errors', 'Retries', 'In', 'Out', 'Cache read', 'Cache write', 'Cost', ...(most > 0 ? [''] : [])]} rows={f.models.map((m) => [
        m.agent, `${m.provider}/${m.model}`, count(m.turns), count(m.errors), count(m.retries), count(m.input), count(m.output), count(m.cacheRead), count(m.cacheWrite), dollars(m.cost),
        ...(most > 0 ? [<Meter value={m.cost} most={most} />] : []),
      ])} />
    </>
  );
}

function Tools({ f }: { f: Numbers }) {
  if (f.tools.length === 0) return null;
  const most = Math.max(...f.tools.map((t) => t.latency.p99));
  return (
    <>
      <h2>Tools</h2>
      <Figures head={['Tool', 'Calls', 'Errors', 'p50 – p90 – p99', 'p50', 'p90', 'p99', 'max']} rows={f.tools.map((t) => [t.name, count(t.calls), count(t.errors), t.latency.count ? <Range {...t.latency} most={most} /> : '', ...quantiles(t.latency)])} />
    </>
  );
}

const quantiles = (l: Latency) => (l.count ? [took(l.p50), took(l.p90), took(l.p99), took(l.max)] : ['–', '–', '–', '–']);

/** A number in few characters. */
export const short = (n: number): string => (n >= 1e6 ? `${+(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${+(n / 1e3).toFixed(1)}k` : String(+n.toFixed(1)));
