// Clients of the beta line, and the expected events of their streams.
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';

import * as beta5 from 'flue-sdk-beta5';
import * as beta7 from 'flue-sdk-beta7';

import { token } from './suite.mjs';

export const sdks = { 'beta.5': beta5, 'beta.7': beta7 };

/** The base URL of the beta line of the server with this mount, and the agent's name. */
export const line = (mount) => ({ base: new URL('/beta', mount).href, name: mount.split('/').at(-1) });

/** A client of the beta line of the server with this mount. */
export const betaClient = (sdk, mount) => sdk.createFlueClient({ baseUrl: line(mount).base, token });

/** The current stream from the beginning. */
export async function everything(client, name, id) {
  const events = [];
  for await (const event of client.agents.stream(name, id, { live: false })) events.push(event);
  return events;
}

/**
 * Follows a prompt in a live stream until it is settled, and resumes from the client's
 * offset after each disconnect. Events that a resumed batch repeats are dropped.
 */
export async function followed(client, name, id, admission, live, onEvent = () => {}) {
  const events = [];
  let offset = admission.offset;
  for (;;) {
    const stream = client.agents.stream(name, id, { live, offset });
    try {
      for await (const event of stream) {
        if (event.submissionId !== admission.submissionId) continue;
        if (event.eventIndex < events.length) continue;
        assert.equal(event.eventIndex, events.length, 'no event is skipped');
        events.push(event);
        onEvent(event);
        if (event.type === 'submission_settled') return events;
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    offset = stream.offset;
    await pause(20);
  }
}

/** The concatenated text deltas of a prompt. */
export const deltas = (events) => events.filter(({ type }) => type === 'text_delta').map(({ text }) => text).join('');
