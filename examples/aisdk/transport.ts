// A transport for useChat of the AI SDK: each chat is a conversation of an agent.
import { createFlueClient } from '@flue/sdk';
import type { ChatTransport, UIMessage, UIMessageChunk } from 'ai';

type Client = ReturnType<typeof createFlueClient>;
type Message = Awaited<ReturnType<Client['history']>>['messages'][number];
type Part = Message['parts'][number];

export type ParleyTransportOptions = {
  /** The URL at which the agent is mounted, such as https://example.com/agents/support. */
  mount: string;
  /** Headers of each request, such as those of a session on your server. */
  headers?: Record<string, string>;
};

export class ParleyTransport implements ChatTransport<UIMessage> {
  readonly #options: ParleyTransportOptions;

  constructor(options: ParleyTransportOptions) {
    this.#options = options;
  }

  #client(chatId: string): Client {
    const { mount, headers } = this.#options;
    return createFlueClient({ url: `${mount}/${encodeURIComponent(chatId)}`, ...(headers && { headers }) });
  }

  /** Sends the last message. The server has the earlier ones. */
  async sendMessages({ trigger, chatId, messages, abortSignal }: Parameters<ChatTransport<UIMessage>['sendMessages']>[0]) {
    const last = messages.at(-1);
    if (trigger !== 'submit-message' || last?.role !== 'user') throw new Error('regenerate is not supported; send another message.');
    const body = last.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
    const client = this.#client(chatId);
    // The id of the message is its idempotency key, so a retry does not duplicate it.
    const { submissionId } = await client.send({ message: { kind: 'user', body }, idempotencyKey: last.id });
    return reply(client, submissionId, abortSignal);
  }

  /** Follows the reply in progress, if there is one. */
  async reconnectToStream({ chatId }: { chatId: string }) {
    const client = this.#client(chatId);
    const { messages, settlements } = await client.history();
    const open = messages.find((m) => m.role === 'user' && m.submissionId && !settlements.some((s) => s.submissionId === m.submissionId));
    return open?.submissionId ? reply(client, open.submissionId, undefined) : null;
  }
}

/** Returns the reply to a submission as a stream of the AI SDK. stop aborts it on the server. */
function reply(client: Client, submission: string, stop: AbortSignal | undefined): ReadableStream<UIMessageChunk> {
  const observation = client.observe({ live: 'sse' });
  const aborts = () => void client.abort().catch(() => {}); // The settlement shows whether the abort succeeded.
  const end = () => {
    stop?.removeEventListener('abort', aborts);
    observation.close();
  };
  return new ReadableStream<UIMessageChunk>({
    start(out) {
      const shown = new Shown((chunk) => out.enqueue(chunk));
      const close = (last: UIMessageChunk) => {
        end();
        out.enqueue(last);
        out.close();
      };
      let over = false;
      const look = () => {
        const { conversation, error } = observation.getSnapshot();
        if (over) return;
        try {
          if (error) throw error;
          if (!conversation) return;
          shown.update(conversation.messages.filter((m) => m.role === 'assistant' && m.submissionId === submission).flatMap((m) => m.parts));
          const settled = conversation.settlements.find((s) => s.submissionId === submission);
          if (!settled) return;
          over = true;
          shown.end();
          if (settled.outcome === 'failed') throw new Error((settled.error as { message?: string } | undefined)?.message ?? 'The message failed.');
          close(settled.outcome === 'aborted' ? { type: 'abort' } : { type: 'finish' });
        } catch (error) {
          over = true;
          close({ type: 'error', errorText: error instanceof Error ? error.message : String(error) });
        }
      };
      out.enqueue({ type: 'start' });
      stop?.addEventListener('abort', aborts, { once: true });
      if (stop?.aborted) aborts();
      observation.subscribe(look);
      look();
    },
    cancel: end,
  });
}

/** Tracks the parts of a reply that the stream has emitted. */
class Shown {
  readonly #emit: (chunk: UIMessageChunk) => void;
  /** The emitted text, or the state of the tool, of each part. */
  readonly #parts: string[] = [];
  #open: { type: 'text' | 'reasoning'; id: string; at: number } | undefined;

  constructor(emit: (chunk: UIMessageChunk) => void) {
    this.#emit = emit;
  }

  /** Emits the changes of the reply's parts. */
  update(parts: Part[]) {
    if (parts.length < this.#parts.length) throw withdrawn();
    for (const [at, part] of parts.entries()) this.#part(at, part);
  }

  #part(at: number, part: Part) {
    const before = this.#parts[at];
    switch (part.type) {
      case 'text':
      case 'reasoning': {
        if (before !== undefined && !part.text.startsWith(before)) throw withdrawn();
        if (before === part.text) return;
        if (before === undefined) {
          this.end();
          this.#open = { type: part.type, id: `${at}`, at };
          this.#emit({ type: `${part.type}-start`, id: `${at}` });
        }
        if (this.#open?.at !== at) throw withdrawn();
        this.#emit({ type: `${part.type}-delta`, id: `${at}`, delta: part.text.slice(before?.length ?? 0) });
        this.#parts[at] = part.text;
        return;
      }
      case 'dynamic-tool': {
        const { toolCallId, toolName } = part;
        if (before === part.state) return;
        if (before === undefined) {
          this.end();
          this.#emit({ type: 'tool-input-available', toolCallId, toolName, input: part.input, dynamic: true });
        }
        if (part.state === 'output-available') this.#emit({ type: 'tool-output-available', toolCallId, output: part.output, dynamic: true });
        if (part.state === 'output-error') this.#emit({ type: 'tool-output-error', toolCallId, errorText: part.errorText, dynamic: true });
        this.#parts[at] = part.state;
        return;
      }
      default: {
        const now = JSON.stringify(part);
        if (before === now) return;
        this.end();
        if (part.type.startsWith('data-')) this.#emit({ type: part.type as `data-${string}`, id: `${at}`, data: (part as { data: unknown }).data });
        this.#parts[at] = now;
      }
    }
  }

  /** Ends the open text. */
  end() {
    if (this.#open) this.#emit({ type: `${this.#open.type}-end`, id: this.#open.id });
    this.#open = undefined;
  }
}

/** The AI SDK cannot retract a text: after a failed model call, the reply starts over. */
const withdrawn = () => new Error('The reply has begun again; reload the chat.');
