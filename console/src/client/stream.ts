import { request } from './http';

/** One event of an event stream. */
export type StreamEvent = { event: string; data: string };

/** A server sends a heartbeat every 15 seconds; without one for this long it is unreachable. */
const silence = 40_000;

/** Reads an event stream to its end. EventSource cannot send a token. */
export async function* stream(url: string, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), silence);
  const both = AbortSignal.any([signal, silent.signal]);
  try {
    const response = await request(url, { signal: both, headers: { Accept: 'text/event-stream' } });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), silence);
      yield* parser.push(value);
    }
  } finally {
    clearTimeout(timer);
    silent.abort();
  }
}

/** Splits text into events, independent of chunk boundaries. */
export class Parser {
  private rest = '';

  push(text: string): StreamEvent[] {
    const events: StreamEvent[] = [];
    const blocks = (this.rest + text).split('\n\n');
    this.rest = blocks.pop()!;
    for (const block of blocks) {
      let event = 'message';
      const data: string[] = [];
      for (const line of block.split('\n')) {
        const at = line.indexOf(':');
        if (at <= 0) continue; // a comment
        const value = line.slice(line[at + 1] === ' ' ? at + 2 : at + 1);
        if (line.startsWith('event:')) event = value;
        if (line.startsWith('data:')) data.push(value);
      }
      if (data.length > 0) events.push({ event, data: data.join('\n') });
    }
    return events;
  }
}
