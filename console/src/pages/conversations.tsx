import { useMemo, useState } from 'preact/hooks';
import type { Server } from '../client/agents';
import { api, usePolled, type List, type Listed } from '../client/dev';
import { count, counted, dollars, took, when } from '../format';
import { format } from '../route';
import { periods, Select, Trouble } from './parts';

const outcomes = ['completed', 'failed', 'aborted', 'running', 'queued'];

/** The conversations of the folder. */
export function Conversations({ server }: { server: Server }) {
  const [q, setWords] = useState('');
  const [agent, setAgent] = useState('');
  const [outcome, setOutcome] = useState('');
  const [period, setPeriod] = useState('');
  const since = useMemo(() => (period ? String(Date.now() - Number(period)) : ''), [period]);
  const { value, error } = usePolled<List>(api('conversations', { q, agent, outcome, since }), 2_000);
  return (
    <div class="page">
      <h1>Conversations</h1>
      <div class="choices">
        <label class="search">Search<input type="search" list={undefined} value={q} onInput={(e) => setWords(e.currentTarget.value)} placeholder="title, message, id" /></label>
        <Select label="Agent" value={agent} set={setAgent} options={[['all', ''], ...server.agents.map((a): [string, string] => [a.name, a.name])]} />
        <Select label="Outcome" value={outcome} set={setOutcome} options={[['any', ''], ...outcomes.map((o): [string, string] => [o, o])]} />
        <Select label="Active" value={period} set={setPeriod} options={periods} />
      </div>
      <Trouble error={error} />
      {value && <p class="dim found" role="status">{found(value)}</p>}
      {value?.all === 0 && <p><a href="#/">Talk to an agent</a></p>}
      <ul class="conversations">{value?.conversations.map((c) => <Item key={`${c.agent}/${c.id}`} c={c} server={server} />)}</ul>
    </div>
  );
}

function found(l: List): string {
  if (l.all === 0) return 'No conversations yet.';
  const shown = l.conversations.length < l.found ? `; the list has the newest ${l.conversations.length}` : '';
  return l.found === l.all ? `${counted(l.all, 'conversation')}${shown}` : `${l.found} of ${counted(l.all, 'conversation')}${shown}`;
}

function Item({ c, server }: { c: Listed; server: Server }) {
  const [open, setOpen] = useState(false);
  const mount = server.agents.find((a) => a.name === c.agent)?.mounts[0];
  const title = c.title || c.id || 'Unreadable title';
  const newest = c.submissions[0];
  return (
    <li>
      <p class="title">
        {mount ? <a href={format({ page: 'chat', open: [{ mount, id: c.id }] })} dir="auto" title={title}>{title}</a> : <span dir="auto">{title}</span>}
        {newest && <span class={`state ${newest.state}`}>{newest.state}{newest.error && newest.state === 'failed' && `: ${newest.error}`}</span>}
      </p>
      <p class="dim facts">
        {c.id && <span class="id" title={c.id}>{c.agent} / {c.id}</span>}
        {c.input + c.output > 0 && <span title={`${counted(c.input, 'token')} in, ${counted(c.output, 'token')} out`}>{count(c.input + c.output)} tokens</span>}
        {c.cost > 0 && <span>{dollars(c.cost)}</span>}
        <time dateTime={c.active}>{when(c.active)}</time>
        {c.submissions.length > 0 && <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{counted(c.admitted, 'message')} {open ? '▴' : '▾'}</button>}
      </p>
      {c.damaged && <p class="problem">The log cannot be read to its end: {c.damaged}. Run parley log verify.</p>}
      {open && (
        <ul class="timelines">
          {c.submissions.map((s) => (
            <li key={s.id}>
              <a href={format({ page: 'submission', id: s.id })} dir="auto">{s.title || s.id}</a>{' '}
              <span class={`state ${s.state}`}>{s.state}</span> <span class="dim">{[s.totalMs !== undefined && took(s.totalMs), s.model, when(s.at)].filter(Boolean).join(' · ')}</span>
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
