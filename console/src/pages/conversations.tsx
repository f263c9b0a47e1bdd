import { useState } from 'preact/hooks';
import type { Server } from '../client/agents';
import { api, usePolled, type List, type Listed } from '../client/dev';
import { counted, dollars, took, when } from '../format';
import { format } from '../route';
import { Trouble } from './parts';

/** The conversations of the folder. */
export function Conversations({ server }: { server: Server }) {
  const [words, setWords] = useState('');
  const { value, error } = usePolled<List>(api('conversations', { q: words }), 2_000);
  return (
    <div class="page">
      <h1>Conversations</h1>
      <label class="search">Search<input type="search" list={undefined} value={words} onInput={(e) => setWords(e.currentTarget.value)} placeholder="title, message, id, agent" /></label>
      <Trouble error={error} />
      {value && <p class="dim" role="status">{found(value)}</p>}
      {value?.all === 0 && <p><a href="#/">Talk to an agent</a></p>}
      <ul class="conversations">{value?.conversations.map((c) => <Item key={`${c.agent}/${c.id}`} c={c} server={server} />)}</ul>
    </div>
  );
}

function found(l: List): string {
  if (l.all === 0) return 'Nobody has talked here yet.';
  const shown = l.conversations.length < l.found ? `, the newest ${l.conversations.length} are shown` : '';
  return l.found === l.all ? `${l.all} in all${shown}` : `${l.found} of ${l.all}${shown}`;
}

function Item({ c, server }: { c: Listed; server: Server }) {
  const mount = server.agents.find((a) => a.name === c.agent)?.mounts[0];
  const title = c.title || c.id || 'What it is called cannot be read';
  const newest = c.submissions[0];
  return (
    <li>
      <p class="title">
        {mount ? <a href={format({ page: 'chat', open: [{ mount, id: c.id }] })} dir="auto">{title}</a> : <span dir="auto">{title}</span>}
        {newest && <span class={`state ${newest.state}`}>{newest.state}{newest.error && `: ${newest.error}`}</span>}
      </p>
      <p class="dim facts">
        {c.id && <span>{c.agent} / {c.id}</span>}<span>{counted(c.admitted, 'message')}</span>
        <span>{counted(c.input, 'token')} in, {c.output.toLocaleString('en-US')} out</span>{c.cost > 0 && <span>{dollars(c.cost)}</span>}<time dateTime={c.active}>{when(c.active)}</time>
      </p>
      {c.damaged && <p class="problem">Its log cannot be read to the end: {c.damaged}. parley log verify says more.</p>}
      {c.submissions.length > 0 && (
        <details>
          <summary>Timelines</summary>
          <ul class="timelines">
            {c.submissions.map((s) => (
              <li key={s.id}>
                <a href={format({ page: 'submission', id: s.id })} dir="auto">{s.title || s.id}</a>{' '}
                <span class={`state ${s.state}`}>{s.state}</span> <span class="dim">{s.totalMs !== undefined && took(s.totalMs)} {when(s.at)}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
    </li>
  );
}
