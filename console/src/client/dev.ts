import { useEffect, useState } from 'preact/hooks';
import { prefix } from './agents';
import { getJSON, RequestError } from './http';

// The API of "parley dev" for its data. The types match internal/folder and observability/stats.

export type Tokens = { input: number; output: number; cost: number };
export type Submission = Tokens & { id: string; title?: string; at: string; state: string; error?: string; totalMs?: number; model?: string; firstTokenMs?: number };
export type Listed = Tokens & {
  agent: string; id: string; title?: string; begun: string; active: string; admitted: number; submissions: Submission[]; damaged?: string;
};
export type List = { conversations: Listed[]; found: number; all: number };

export type Usage = { input: number; output: number; cacheRead: number; cacheWrite: number; reasoning?: number; cost: { total: number } };
export type Failure = { type: string; message?: string; meta?: Record<string, unknown> };
export type Node = {
  kind: string; name?: string; id?: string; state: string; start?: string; durationMs: number; attempt?: number; recovered?: boolean;
  firstTokenMs?: number; retries?: number; dropped?: boolean; purpose?: string; until?: string; signalSubmissionId?: string;
  usage?: Usage; error?: Failure; children?: Node[]; after?: Node[];
};
export type Said = { bytes: number; text?: string; truncated?: boolean };
export type Prompt = { systemPrompt?: string; messages: { role: string; text: string }[] };
export type Request = {
  turn: string; at: string; purpose: string; providerId: string; requestedModel: string; reasoningLevel?: string;
  contextCompacted?: boolean; messageCount?: number; toolCount?: number; inputBytes?: number; input?: Prompt; inputTruncated?: boolean;
};
export type Timeline = {
  agent: string; id: string; trace: Node; body?: Said; requests: Request[]; calls: Record<string, { args?: Said; result?: Said }>; first: number; last: number;
  /** The reason that data outside the logs is missing. */
  missing?: string;
};
export type Batch = { seq: number; offset: string; records: unknown[] };
export type Records = { batches: Batch[]; last: number };

export type Latency = { count: number; p50: number; p90: number; p99: number; max: number };
type Outcomes = { queued: number; completed: number; failed: number; aborted: number };
type Recent = Spent & {
  begun: string; submission: string; agent?: string; instance?: string; outcome?: string; totalMs: number; error?: string; message?: string;
};
type Spent = { input: number; output: number; cacheRead: number; cacheWrite: number; reasoning: number; cost: number };
export type Figures = {
  events: number; first?: string; last?: string; conversations: number; submissions: Outcomes;
  recovered: number; recoveries: number; fences: number; compactions: number; compactionErrors: number;
  admission: Latency; queue: Latency; firstToken: Latency; turn: Latency; settlement: Latency;
  recent: Recent[];
  errors: { event: string; type: string; count: number }[];
  models: (Spent & { agent: string; provider: string; model: string; turns: number; errors: number; retries: number })[];
  tools: { name: string; calls: number; errors: number; latency: Latency }[];
  hours: (Outcomes & Spent & { hour: string; turns: number })[];
};

export const api = (name: string, query: Record<string, string> = {}) => `${prefix}/api/${name}?${new URLSearchParams(query)}`;

/** The response of a URL, polled while the page is visible. */
export function usePolled<T>(url: string, everyMs: number): { value?: T; error?: RequestError } {
  const [state, set] = useState<{ url?: string; text?: string; value?: T; error?: RequestError }>({});
  useEffect(() => {
    const life = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      if (document.visibilityState === 'visible') {
        try {
          const value = await getJSON<T>(url, life.signal);
          const text = JSON.stringify(value);
          // Equal values are not rendered again.
          set((was) => (was.url === url && was.text === text && !was.error ? was : { url, text, value }));
        } catch (error) {
          if (error instanceof RequestError) set((was) => (was.url === url ? { ...was, error } : { url, error }));
        }
      }
      if (!life.signal.aborted) timer = setTimeout(look, everyMs);
    };
    void look();
    return () => {
      life.abort();
      clearTimeout(timer);
    };
  }, [url, everyMs]);
  const { value, error } = state.url === url ? state : {};
  return { ...(value === undefined ? {} : { value }), ...(error ? { error } : {}) };
}
