import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Chat } from './chat/chat';
import { getServer, type Agent, type Server } from './client/agents';
import { onUnauthorized, RequestError, setHeaders, setToken } from './client/http';
import { Conversations } from './pages/conversations';
import { FiguresPage } from './pages/figures';
import { Start } from './pages/start';
import { SubmissionPage } from './pages/submission';
import { format, freshID, go, useRoute, type Open, type Route } from './route';
import { ThemeButton } from './theme';

/** The polling interval of the server's agents: in dev the configuration changes often. */
const every = { dev: 2_000, serve: 5_000 };
/** The maximum number of conversations side by side. */
const most = 4;

export function App() {
  const [server, setServer] = useState<Server>();
  const [error, setError] = useState<RequestError>();
  const [locked, setLocked] = useState(false);
  const mode = useRef<Server['mode']>('serve');
  const look = useCallback(async (signal?: AbortSignal) => {
    try {
      const now = await getServer(signal);
      setHeaders(now.headers ?? []);
      setServer((was) => (JSON.stringify(was) === JSON.stringify(now) ? was : now));
      setError(undefined);
      setLocked(false);
      mode.current = now.mode;
    } catch (e) {
      if (e instanceof RequestError) setError(e);
    }
  }, []);
  useEffect(() => onUnauthorized(() => setLocked(true)), []);
  useEffect(() => {
    if (locked) return;
    const life = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const again = async (shown: boolean) => {
      if (shown) await look(life.signal);
      if (!life.signal.aborted) timer = setTimeout(() => void again(document.visibilityState === 'visible'), every[mode.current]);
    };
    void again(true);
    return () => {
      life.abort();
      clearTimeout(timer);
    };
  }, [locked]);

  if (locked) return <Token unlock={(t) => { setToken(t); void look(); }} wrong={server === undefined && error?.status === 401} />;
  if (!server) return <main class="center"><p role="status">{error ? error.text : 'Loading…'}</p></main>;
  return <Shell server={server} away={error} />;
}

function Token({ unlock, wrong }: { unlock: (token: string) => void; wrong: boolean }) {
  const [token, setText] = useState('');
  const [tried, setTried] = useState(false);
  return (
    <main class="center">
      <form class="card" onSubmit={(e) => { e.preventDefault(); setTried(true); unlock(token.trim()); }}>
        <h1>Parley</h1>
        <label>Token of this server
          <input type="password" autoComplete="off" value={token} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        {tried && wrong && <p class="problem" role="alert">The server does not accept this token.</p>}
        <p class="dim">The page keeps it in memory; after a reload, enter it again.</p>
        <button class="primary" type="submit">Continue</button>
      </form>
    </main>
  );
}

function Shell({ server, away }: { server: Server; away: RequestError | undefined }) {
  const route = useRoute();
  return (
    <div class="shell">
      <nav class="side" aria-label="Pages">
        <a class="home" href="#/">Parley</a>
        <Links server={server} route={route} />
        <div class="foot">
          <ThemeButton />
          <small class="dim">parley {server.mode} {server.version}</small>
        </div>
      </nav>
      <main>
        {away && <p class="problem banner" role="alert">{away.text}</p>}
        {server.problems && <Problems server={server} />}
        <Page server={server} route={route} />
      </main>
    </div>
  );
}

function Problems({ server }: { server: Server }) {
  return (
    <div class="problem banner" role="alert">
      <b>{server.file} has mistakes; the version before them is served.</b>
      {server.problems!.map((p, i) => (
        <p key={i}><code>{server.file}{p.line ? `:${p.line}${p.column ? `:${p.column}` : ''}` : ''}</code> {p.text}</p>
      ))}
    </div>
  );
}

function Links({ server, route }: { server: Server; route: Route }) {
  const mounted = server.agents.flatMap((a) => a.mounts.map((mount) => ({ agent: a, mount })));
  const opened = route.page === 'chat' ? route.open : [];
  return (
    <ul>
      {server.folder && (['conversations', 'figures'] as const).map((page) => (
        <li key={page}><a href={format({ page })} aria-current={route.page === page ? 'page' : undefined}>{page === 'figures' ? 'Metrics' : 'Conversations'}</a></li>
      ))}
      <li class="small"><a href="#/" aria-current={route.page === 'start' ? 'page' : undefined}>New</a></li>
      <li class="section">New conversation</li>
      {mounted.map(({ agent, mount }) => (
        <li key={mount} class="agent"><button type="button" onClick={() => go({ page: 'chat', open: [{ mount, id: freshID() }] })}>+ {agent.name}<small class="dim">{mount}</small></button></li>
      ))}
      {opened.length > 0 && <li class="section beside">Open side by side</li>}
      {opened.length > 0 && opened.length < most && mounted.map(({ agent, mount }) => (
        <li key={mount} class="agent beside"><button type="button" onClick={() => go({ page: 'chat', open: [...opened, { mount, id: freshID() }] })}>+ {agent.name}<small class="dim">{mount}</small></button></li>
      ))}
    </ul>
  );
}

function Page({ server, route }: { server: Server; route: Route }) {
  if (route.page === 'chat') return <Chats server={server} open={route.open} />;
  if (server.folder) {
    if (route.page === 'conversations') return <Conversations server={server} />;
    if (route.page === 'figures') return <FiguresPage server={server} />;
    if (route.page === 'submission') return <SubmissionPage key={route.id} id={route.id} server={server} />;
  }
  return <Start server={server} />;
}

function Chats({ server, open }: { server: Server; open: Open[] }) {
  const close = (at: number) => {
    const rest = open.filter((_, i) => i !== at);
    go(rest.length > 0 ? { page: 'chat', open: rest } : { page: 'start' });
  };
  return (
    <div class={`chats n${open.length}`}>
      {open.map((o, i) => {
        const agent = agentAt(server, o.mount);
        return agent
          ? <Chat key={format({ page: 'chat', open: [o] })} agent={agent} traced={server.folder ?? false} mount={o.mount} id={o.id} examples={server.demo ? ['help', 'time', 'think', 'long 100'] : []} focused={i === open.length - 1} close={open.length > 1 ? () => close(i) : undefined} />
          : <p class="problem" key={o.mount}>No agent is mounted at {o.mount}. <a href="#/">Choose another one.</a></p>;
      })}
    </div>
  );
}

const agentAt = (server: Server, mount: string): Agent | undefined => server.agents.find((a) => a.mounts.includes(mount));
