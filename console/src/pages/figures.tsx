import { useMemo, useState } from 'preact/hooks';
import type { Server } from '../client/agents';
import { api, usePolled, type Figures as Numbers, type Latency } from '../client/dev';
import { count, dollars, took, when } from '../format';
import { format } from '../route';
import { Figures, Trouble } from './parts';

const periods: [string, number][] = [['all', 0], ['the last hour', 3_600_000], ['the last day', 86_400_000], ['the last week', 604_800_000]];

/** What "parley stats" prints. */
export function FiguresPage({ server }: { server: Server }) {
  const [agent, setAgent] = useState('');
  const [period, setPeriod] = useState(0);
  // The moment is that of the choice, so that the address stays the same.
  const since = useMemo(() => (period ? String(Date.now() - period) : ''), [period]);
  const { value: f, error } = usePolled<Numbers>(api('figures', { agent, since }), 5_000);
  return (
    <div class="page">
      <h1>Figures</h1>
      <div class="choices">
        <label>Agent<select value={agent} onChange={(e) => setAgent(e.currentTarget.value)}>
          <option value="">all</option>{server.agents.map((a) => <option key={a.name}>{a.name}</option>)}
        </select></label>
        <label>Period<select value={period} onChange={(e) => setPeriod(Number(e.currentTarget.value))}>
          {periods.map(([name, ms]) => <option key={ms} value={ms}>{name}</option>)}
        </select></label>
      </div>
      <Trouble error={error} />
      {f && (f.events === 0 ? <p>No events. They come with the next message.</p> : <Tables f={f} />)}
    </div>
  );
}

function Tables({ f }: { f: Numbers }) {
  const s = f.submissions;
  const settled = s.completed + s.failed + s.aborted;
  const share = (n: number) => (settled && n ? `${((100 * n) / settled).toFixed(1)} %` : '–');
  const incidents: [number, string][] = [
    [f.recovered, 'attempts after a loss'], [f.recoveries, 'recovery actions'], [f.fences, 'fenced writers'], [f.compactions, 'compactions'], [f.compactionErrors, 'failed compactions'],
  ];
  const told = incidents.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`).join(', ');
  return (
    <>
      <p class="dim">{count(f.events)} events of {count(f.conversations)} conversations, {f.first && when(f.first)} to {f.last && when(f.last)}{told && `. ${told}`}</p>
      <h2>Outcomes</h2>
      <Figures head={['Submissions', 'Count', 'Share of settled']} rows={[
        ['queued', count(s.queued), ''], ['completed', count(s.completed), share(s.completed)], ['failed', count(s.failed), share(s.failed)], ['aborted', count(s.aborted), share(s.aborted)],
      ]} />
      <h2>Newest</h2>
      <Figures texts={3} head={['Submission', 'Of', 'Outcome', 'Took', 'Tokens', 'Cost']} rows={f.recent.map((r) => [
        <a href={format({ page: 'submission', id: r.submission })}>{when(r.begun)}</a>, [r.agent, r.instance].filter(Boolean).join(' / '),
        <>{r.outcome ?? 'under way'}{r.error && `: ${r.error}`}</>, r.outcome ? took(r.totalMs) : '–', count(r.input + r.cacheRead + r.cacheWrite + r.output), dollars(r.cost),
      ])} />
      <h2>Latencies</h2>
      <Figures head={['Latency', 'Count', 'p50', 'p90', 'p99', 'max']} rows={([
        ['admission', f.admission], ['queue', f.queue], ['first token', f.firstToken], ['turn', f.turn], ['settlement', f.settlement],
      ] as [string, Latency][]).map(([name, l]) => [name, count(l.count), ...quantiles(l)])} />
      <h2>Tokens and cost</h2>
      <Figures texts={2} head={['Agent', 'Model', 'Turns', 'Errors', 'Retries', 'In', 'Out', 'Cache read', 'Cache write', 'Cost']} rows={f.models.map((m) => [
        m.agent, `${m.provider}/${m.model}`, count(m.turns), count(m.errors), count(m.retries), count(m.input), count(m.output), count(m.cacheRead), count(m.cacheWrite), dollars(m.cost),
      ])} />
      <h2>Tools</h2>
      <Figures head={['Tool', 'Calls', 'Errors', 'p50', 'p90', 'p99', 'max']} rows={f.tools.map((t) => [t.name, count(t.calls), count(t.errors), ...quantiles(t.latency)])} />
      <h2>Errors</h2>
      <Figures texts={2} head={['Error', 'Of', 'Count']} rows={f.errors.map((e) => [e.type || '(no type)', e.event.replace(/_settled$/, ''), count(e.count)])} />
      <h2>Hours</h2>
      <Figures head={['Hour', 'Queued', 'Completed', 'Failed', 'Aborted', 'Turns', 'In', 'Out', 'Cost']} rows={f.hours.slice(-24).map((h) => [
        when(h.hour), count(h.queued), count(h.completed), count(h.failed), count(h.aborted), count(h.turns), count(h.input), count(h.output), dollars(h.cost),
      ])} />
    </>
  );
}

const quantiles = (l: Latency) => (l.count ? [took(l.p50), took(l.p90), took(l.p99), took(l.max)] : ['–', '–', '–', '–']);
