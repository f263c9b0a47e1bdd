import { getJSON, pause, postJSON, RequestError } from './http';
import { fromSnapshot, reduce, start, type Conversation } from './reduce';
import { stream } from './stream';
import type { Chunk, Delivery, Receipt, Snapshot } from './types';

/** How a follower is in touch with its server. */
export type Phase = 'loading' | 'absent' | 'live' | 'away' | 'refused';

/** A message that is on its way. */
export type Pending = { delivery: Delivery; at: number; submissionId?: string; error?: RequestError };

/** What a follower knows. */
export type View = { phase: Phase; conversation: Conversation; pending: readonly Pending[]; error?: RequestError | undefined };

const shortest = 250;
const longest = 5_000;

/**
 * Follows one conversation and sends messages to it, until it is closed. What was said is shown once, whatever
 * breaks: reading goes on from the last offset, and a message is repeated under its key until it is known to be there.
 */
export class Follower {
  view: View = { phase: 'loading', conversation: start, pending: [] };
  /** What this page has begun the conversation with, by the submission that it went along with. */
  readonly begun = new Map<string, unknown>();
  private readonly life = new AbortController();
  private readonly listeners = new Set<() => void>();
  private offset = '';
  private woke = false;
  private resume = () => {};
  private frame = 0;

  constructor(
    /** The address of the conversation. */
    readonly url: string,
    /** Nobody but this page knows the address yet, so that there is nothing to ask for. */
    private fresh = false,
  ) {
    this.view = { ...this.view, pending: kept(url) };
    void this.run();
    for (const p of this.view.pending) void this.deliver(p);
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  close() {
    this.life.abort();
    cancelAnimationFrame(this.frame);
  }

  /** Sends a message; it is shown at once. */
  send(delivery: Delivery) {
    const p: Pending = { delivery, at: Date.now() };
    this.change({ pending: [...this.view.pending, p] });
    keep(this.url, this.view.pending);
    void this.deliver(p);
  }

  /** Sends a refused message again, or forgets it. */
  again(key: string) {
    const p = this.replace(key, { error: undefined });
    if (p) void this.deliver(p);
  }

  forget(key: string) {
    this.change({ pending: this.view.pending.filter((p) => p.delivery.idempotencyKey !== key) });
    keep(this.url, this.view.pending);
  }

  /** Ends everything that is owed an outcome. */
  async abort(): Promise<boolean> {
    return (await postJSON<{ aborted: boolean }>(`${this.url}/abort`, {}, this.life.signal)).aborted;
  }

  private async deliver(p: Pending) {
    const key = p.delivery.idempotencyKey;
    for (let wait = shortest; !this.life.signal.aborted; wait = Math.min(wait * 2, longest)) {
      try {
        const receipt = await postJSON<Receipt>(this.url, p.delivery, this.life.signal);
        if (p.delivery.initialData !== undefined) this.begun.set(receipt.submissionId, p.delivery.initialData);
        this.replace(key, { submissionId: receipt.submissionId, error: undefined });
        this.settlePending();
        this.wake();
        return;
      } catch (error) {
        if (!(error instanceof RequestError)) return; // closed
        this.replace(key, { error });
        if (!error.passes) return;
        await pause(Math.max(wait, error.retryAfterMs), this.life.signal);
      }
    }
  }

  private replace(key: string, what: Partial<Pending>): Pending | undefined {
    let found: Pending | undefined;
    const pending = this.view.pending.map((p) => (p.delivery.idempotencyKey === key ? (found = { ...p, ...what } as Pending) : p));
    this.change({ pending });
    return found;
  }

  /** Leaves out of the pending messages what the conversation shows. */
  private settlePending() {
    if (this.view.pending.length === 0) return;
    const shown = new Set(this.view.conversation.messages.map((m) => m.submissionId));
    const pending = this.view.pending.filter((p) => !p.submissionId || !shown.has(p.submissionId));
    if (pending.length === this.view.pending.length) return;
    this.view = { ...this.view, pending };
    keep(this.url, pending);
    this.tell();
  }

  private async run() {
    const { signal } = this.life;
    for (let wait = shortest; !signal.aborted; ) {
      try {
        if (this.fresh) {
          this.change({ phase: 'absent' });
          await this.rest();
          this.fresh = false;
          continue;
        }
        if (!this.offset) await this.load();
        await this.follow(() => (wait = shortest));
        // The server has ended the stream, as it does when it is told to stop.
        this.change({ phase: 'away' });
      } catch (error) {
        if (signal.aborted) return;
        const refusal = error instanceof RequestError ? error : new RequestError(0, 'broken_off', 'The connection broke off.');
        if (refusal.type === 'stream_not_found') {
          this.offset = '';
          this.change({ phase: 'absent', error: undefined, conversation: start });
          // Somebody else may begin it, too.
          await this.rest(2_000);
          continue;
        }
        // An offset beyond the end: the conversation is another one than it was.
        if (refusal.type === 'conversation_stream_store_failure' || refusal.type === 'invalid_request') this.offset = '';
        this.change({ phase: refusal.passes || refusal.status >= 500 ? 'away' : 'refused', error: refusal.status === 0 ? undefined : refusal });
        wait = Math.max(wait, refusal.retryAfterMs);
      }
      await this.rest(wait);
      wait = Math.min(wait * 2, longest);
    }
  }

  private wake() {
    this.woke = true;
    this.resume();
  }

  /** Ends after a time, or at the next wake, or at once if there was one since the last time. */
  private async rest(ms?: number): Promise<void> {
    if (!this.woke) {
      await new Promise<void>((resolve) => {
        this.resume = resolve;
        if (ms !== undefined) void pause(ms, this.life.signal).then(resolve);
      });
    }
    this.resume = () => {};
    this.woke = false;
  }

  private async load() {
    const snapshot = await getJSON<Snapshot>(this.url, this.life.signal);
    this.offset = snapshot.offset;
    this.change({ phase: 'live', error: undefined, conversation: fromSnapshot(snapshot) });
    this.settlePending();
  }

  private async follow(reached: () => void) {
    for await (const { event, data } of stream(`${this.url}?view=updates&live=sse&offset=${this.offset}`, this.life.signal)) {
      if (event === 'data') {
        // What follows is drawn in one frame; what has come of it counts at once.
        this.view = { ...this.view, conversation: reduce(this.view.conversation, JSON.parse(data) as Chunk[]) };
        this.settlePending();
        this.draw();
      } else if (event === 'control') {
        this.offset = (JSON.parse(data) as { streamNextOffset: string }).streamNextOffset;
        reached();
        if (this.view.phase !== 'live' || this.view.error) this.change({ phase: 'live', error: undefined });
      }
    }
  }

  private change(what: Partial<View>) {
    this.view = { ...this.view, ...what } as View;
    this.tell();
  }

  private tell() {
    for (const listener of this.listeners) listener();
  }

  /** Tells the listeners before the next frame, once. */
  private draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.tell();
    });
  }
}

const place = (url: string) => `parley:pending:${url}`;

/** What a tab had under way when it was reloaded: it is sent again under its keys. */
function kept(url: string): Pending[] {
  try {
    return (JSON.parse(sessionStorage.getItem(place(url)) ?? '[]') as Pending[]).map(({ delivery, at }) => ({ delivery, at }));
  } catch {
    return [];
  }
}

function keep(url: string, pending: readonly Pending[]) {
  try {
    if (pending.length === 0) sessionStorage.removeItem(place(url));
    else sessionStorage.setItem(place(url), JSON.stringify(pending.map(({ delivery, at }) => ({ delivery, at }))));
  } catch {
    // Images may be larger than what a tab may keep; they are sent all the same.
  }
}
