import { useEffect, useState } from 'preact/hooks';

/** An open conversation: the mount of its agent, and its id. */
export type Open = { mount: string; id: string };

/** The state of the page, which the address holds after its #. */
export type Route =
  | { page: 'start' }
  | { page: 'chat'; open: Open[] }
  | { page: 'conversations' }
  | { page: 'submission'; id: string }
  | { page: 'figures' };

const decode = (s: string): string => {
  try {
    return decodeURIComponent(s);
  } catch {
    return s;
  }
};

/** Parses an address. An unknown one is the start page. */
export function parse(hash: string): Route {
  const [page, ...rest] = hash.replace(/^#\/?/, '').split('/').map(decode);
  if (page === 'chat') {
    const open: Open[] = [];
    for (let i = 0; i + 1 < rest.length; i += 2) open.push({ mount: rest[i]!, id: rest[i + 1]! });
    if (open.length > 0) return { page, open };
  }
  if (page === 'submission' && rest[0]) return { page, id: rest[0] };
  if (page === 'conversations' || page === 'figures') return { page };
  return { page: 'start' };
}

/** Formats an address. */
export function format(r: Route): string {
  if (r.page === 'chat') return `#/chat/${r.open.flatMap((o) => [o.mount, o.id]).map(encodeURIComponent).join('/')}`;
  if (r.page === 'submission') return `#/submission/${encodeURIComponent(r.id)}`;
  return r.page === 'start' ? '#/' : `#/${r.page}`;
}

export function go(r: Route) {
  location.hash = format(r);
}

export function useRoute(): Route {
  const [route, set] = useState(() => parse(location.hash));
  useEffect(() => {
    const look = () => set(parse(location.hash));
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  return route;
}

/** Whether this tab created an id, so that no conversation has it before this tab sends a message. */
export const isFresh = (id: string): boolean => sessionStorage.getItem(`parley:fresh:${id}`) === '1';

/** Records that a conversation has begun. */
export const begun = (id: string) => sessionStorage.removeItem(`parley:fresh:${id}`);

/** A new, unique and readable id. */
export function freshID(): string {
  const letters = 'abcdefghjkmnpqrstvwxyz23456789';
  const id = `chat-${[...crypto.getRandomValues(new Uint8Array(8))].map((n) => letters[n % letters.length]).join('')}`;
  sessionStorage.setItem(`parley:fresh:${id}`, '1');
  return id;
}
