// Requests of the page. The token is kept only in memory: a reload asks for it again.

let token = '';
const listeners = new Set<() => void>();

/** Sets the token of all further requests. */
export function setToken(t: string) {
  token = t;
}

let headers: string[] = [];

/** Sets the names of the headers that copied requests carry in addition to a token. */
export function setHeaders(names: string[]) {
  headers = names;
}

/** The headers that requests of other programs need. */
export const access = () => ({ secured: token !== '', headers });

/** Calls back when a server requires a token, or rejects the current one. */
export function onUnauthorized(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** A failed request: the server's error, or no response. */
export class RequestError extends Error {
  constructor(
    /** Status of the response; 0 without one. */
    readonly status: number,
    readonly type: string,
    message: string,
    readonly details = '',
    readonly meta: Record<string, unknown> = {},
    readonly retryAfterMs = 0,
  ) {
    super(message);
  }

  /** Whether a retry of the same request may succeed. */
  get passes(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 502 || this.status === 504 || this.status === 429;
  }

  /** The text for the user. The message may be the first sentence of the details, which is shown once. */
  get text(): string {
    return this.details.startsWith(this.message) ? this.details : `${this.message} ${this.details}`.trim();
  }
}

/** Sends a request and returns its successful response. */
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

/** Sends a JSON value and returns the response. */
export async function postJSON<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
  return (await request(url, signal ? { ...init, signal } : init)).json() as Promise<T>;
}

/** Waits until the time is over or the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
    // The network may be back.
    addEventListener('online', end, { once: true, signal });
  });
}
