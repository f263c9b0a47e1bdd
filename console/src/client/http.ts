// Requests of the page. The token is kept in memory alone: a reload asks for it again.

let token = '';
const listeners = new Set<() => void>();

/** Gives all requests from now on a token. */
export function setToken(t: string) {
  token = t;
}

let headers: string[] = [];

/** Sets the names of the headers that copied requests carry in addition to a token. */
export function setHeaders(names: string[]) {
  headers = names;
}

/** What requests of other programs must carry. */
export const access = () => ({ secured: token !== '', headers });

/** Calls back when a server wants a token, or another one. */
export function onUnauthorized(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** An answer that is none: the server's error, or that there was no answer. */
export class RequestError extends Error {
  constructor(
    /** Of the answer; 0 without one. */
    readonly status: number,
    readonly type: string,
    message: string,
    readonly details = '',
    readonly meta: Record<string, unknown> = {},
    readonly retryAfterMs = 0,
  ) {
    super(message);
  }

  /** Whether the same request may be answered later. */
  get passes(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 502 || this.status === 504 || this.status === 429;
  }

  /** The text for a person. The message may be the first sentence of the details, which is shown once. */
  get text(): string {
    return this.details.startsWith(this.message) ? this.details : `${this.message} ${this.details}`.trim();
  }
}

/** Sends a request and returns its answer, which is not an error. */
export async function request(url: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token) headers.set('Authorization', `Bearer ${token}`);
  let response: Response;
  try {
    response = await fetch(url, { ...init, headers, cache: 'no-store', redirect: 'error', credentials: 'same-origin' });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    throw new RequestError(0, 'no_answer', 'The server does not answer.', 'It may be down, or starting. The page tries again.');
  }
  if (response.ok) return response;
  if (response.status === 401) for (const listener of listeners) listener();
  throw await errorOf(response);
}

async function errorOf(response: Response): Promise<RequestError> {
  const after = Number(response.headers.get('Retry-After') ?? 0) * 1000;
  try {
    const { error } = await response.json();
    const text = [error.details, error.dev, error.ref && `Its ref is ${error.ref}.`].filter(Boolean).join(' ');
    return new RequestError(response.status, String(error.type), String(error.message), text, error.meta ?? {}, after);
  } catch {
    return new RequestError(response.status, 'unknown', `The server answers with status ${response.status}.`, '', {}, after);
  }
}

/** Gets a JSON value. */
export async function getJSON<T>(url: string, signal?: AbortSignal): Promise<T> {
  return (await request(url, signal ? { signal } : {})).json() as Promise<T>;
}

/** Sends a JSON value and returns the one that is answered. */
export async function postJSON<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  return (await request(url, signal ? { ...init, signal } : init)).json() as Promise<T>;
}

/** Waits, unless the signal ends it. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
    // What has been away may be back at once.
    addEventListener('online', end, { once: true, signal });
  });
}
