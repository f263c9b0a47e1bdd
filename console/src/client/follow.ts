import { getJSON, pause, postJSON, RequestError } from './http';
import { fromSnapshot, reduce, start, type Conversation } from './reduce';
import { stream } from './stream';
import type { Chunk, Delivery, Receipt, Snapshot } from './types';

/** The state of a follower's connection. */
export type Phase = 'loading' | 'absent' | 'live' | 'away' | 'refused';

/** A pending message. */
export type Pending = { delivery: Delivery; at: number; submissionId?: string; error?: RequestError };

/** The state of a follower. */
export type View = { phase: Phase; conversation: Conversation; pending: readonly Pending[]; error?: RequestError | undefined };

const shortest = 250;
const longest = 5_000;

/**
 * Follows one conversation and sends messages to it, until it is closed. Every chunk is applied once, whatever
 * fails: reading resumes at the last offset, and a message is retried with its key until it is admitted.
 */
export class Follower {
  view: View = { phase: 'loading', conversation: start, pending: [] };
  /** The initial data sent by this page, by submission. */
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
    /** This page created the id and has sent nothing yet, so there is nothing to read. */
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

  /** Resends or drops a rejected message. */
  again(key: string) {
    const p = this.replace(key, { error: undefined });
    if (p) void this.deliver(p);
  }

  forget(key: string) {
    this.change({ pending: this.view.pending.filter((p) => p.delivery.idempotencyKey !== key) });
    keep(this.url, this.view.pending);
  }

  /** Aborts all unsettled work. */
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

  /** Removes the pending messages that the conversation contains. */
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
        // The server has ended the stream, for example during shutdown.
        this.change({ phase: 'away' });
      } catch (error) {
        if (signal.aborted) return;
        const refusal = error instanceof RequestError ? error : new RequestError(0, 'broken_off', 'The connection broke off.');
        if (refusal.type === 'stream_not_found') {
          this.offset = '';
          this.change({ phase: 'absent', error: undefined, conversation: start });
          // Another client may create it too.
          await this.rest(2_000);
          continue;
        }
        // An offset beyond the end: the conversation was replaced.
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

  /** Resolves after a time, or at the next wake-up, or at once if there was one since the last call. */
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
        // Further chunks are rendered in one frame; the state is updated at once.
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

  /** Notifies the listeners before the next frame, once. */
  private draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.tell();
    });
  }
}

const place = (url: string) => `parley:pending:${url}`;

/** The pending messages of a reloaded tab, which are resent with their keys. */
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
    // Images may exceed the storage of a tab; they are still sent.
  }
}
