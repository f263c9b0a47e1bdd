// Shared helpers: clients of the servers that the Go test started, and waits that
// end on an event, never after a fixed time.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';

import { createFlueClient } from '@flue/sdk';

/** The timeout of a wait. */
const patience = 120_000;

export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are run by "go test ./test/clients"`);
  return value;
}

/** The control URL of the model, and its error text. */
export const model = required('MODEL_URL');
export const vendorWords = required('MODEL_ERROR_TEXT');

/** The bearer token of "parley serve". */
export const token = required('PARLEY_TOKEN');

/**
 * Agents of "parley serve", one per wire format of the model. Behavior that may
 * depend on the format is tested with each.
 */
export const served = {
  completions: required('PARLEY_COMPLETIONS_URL'),
  messages: required('PARLEY_MESSAGES_URL'),
};

/** The same agents on a server that control restarts. */
export const restarted = {
  completions: required('PARLEY_RESTARTED_COMPLETIONS_URL'),
  messages: required('PARLEY_RESTARTED_MESSAGES_URL'),
};
export const control = required('PARLEY_CONTROL_URL');

/** Agents of a program that uses the library: with tools, data, hooks. */
export const library = required('PARLEY_LIBRARY_URL');

/** A unique name. */
export const unique = (name = 'c') => `${name}-${randomUUID()}`;

/** A client of a conversation, by default a new one. */
export function conversation(mount, options = {}) {
  const { id = unique(), ...rest } = options;
  return createFlueClient({ url: `${mount}/${encodeURIComponent(id)}`, token, ...rest });
}

/** Sends a user's text. */
export const say = (client, body, options = {}) => client.send({ message: { kind: 'user', body }, ...options });

/** Sends a user's text and returns the settled reply. */
export const ask = async (client, body) => client.read(await say(client, body));

/** Releases the gate of a script's hold=gate. */
export async function release(gate) {
  const response = await fetch(`${model}/release/${encodeURIComponent(gate)}`, { method: 'POST' });
  assert.equal(response.status, 204);
}

/** The model calls whose prompt contains the text. */
export async function modelCalls(text) {
  const response = await fetch(`${model}/requests`);
  return (await response.json()).filter((call) => call.prompt.includes(text));
}

/** Polls check, and resolves with its first true result. */
export async function eventually(check, what) {
  const deadline = Date.now() + patience;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`still waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** w1 … wN, the answer to tokens=N. */
export const words = (n, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => `w${from + i}`).join(' ');

/** The text parts of a message, joined. */
/** A picture of n bytes, at least 33. Only its header is valid. */
export const picture = (n) => Buffer.concat([
  Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55', 'hex'), randomBytes(n - 33),
]);

export const textOf = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('|');

/** The messages of one role. */
export const ofRole = (state, role) => (state?.messages ?? []).filter((message) => message.role === role);

/** Rejects after the timeout. */
export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`still waiting for ${typeof what === 'function' ? what() : what}`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * Observes a conversation and records all published states. It verifies that a
 * published text only grows, which holds for each observation unless a model call
 * is retried.
 */
export class Watcher {
  constructor(client, { withdrawals = false, ...options } = {}) {
    this.withdrawals = withdrawals;
    this.observation = client.observe(options);
    this.published = [];
    this.waiting = new Set();
    this.broken = undefined;
    this.observation.subscribe(() => this.#publish());
  }

  #publish() {
    const before = this.published.at(-1);
    const now = this.observation.getSnapshot();
    this.published.push(now);
    try {
      if (!this.withdrawals) onlyGrows(before?.conversation, now.conversation);
    } catch (error) {
      this.broken ??= error;
    }
    for (const check of this.waiting) check();
  }

  get conversation() {
    return this.observation.getSnapshot().conversation;
  }

  get phase() {
    return this.observation.getSnapshot().phase;
  }

  /** Resolves with the first state that meets a condition. */
  until(has, what) {
    return within(
      new Promise((resolve, reject) => {
        const check = () => {
          const now = this.observation.getSnapshot();
          if (this.broken) reject(this.broken);
          else if (has(now)) resolve(now);
          else return;
          this.waiting.delete(check);
        };
        this.waiting.add(check);
        check();
      }),
      () => `${what}; the last of ${this.published.length} states is ${JSON.stringify(this.observation.getSnapshot())}`,
    );
  }

  /** Resolves once a response has this text. */
  untilText(text) {
    return this.until(({ conversation }) => ofRole(conversation, 'assistant').some((message) => textOf(message) === text), `the text ${text}`);
  }

  /** Resolves once a submission has settled. */
  untilSettled(admission) {
    return this.until(
      ({ conversation }) => conversation?.settlements.some((entry) => entry.submissionId === admission.submissionId),
      `the settlement of ${admission.submissionId}`,
    );
  }

  close() {
    this.observation.close();
  }
}

function onlyGrows(before, now) {
  if (!before || !now) return;
  for (const message of before.messages) {
    const same = now.messages.find((other) => other.id === message.id);
    assert.ok(same, `message ${message.id} has gone`);
    assert.ok(textOf(same).startsWith(textOf(message)), `the text ${textOf(message)} became ${textOf(same)}`);
  }
}

/** Observes for the duration of a test. */
export async function observing(client, options, test) {
  const watcher = new Watcher(client, options);
  try {
    return await test(watcher);
  } finally {
    watcher.close();
  }
}

/**
 * The observed state must equal the snapshot in all fields that JSON can
 * represent: the client sets some to undefined.
 */
export async function sameAsHistory(watcher, client) {
  const { conversationId, messages, settlements } = await client.history();
  assert.deepEqual(JSON.parse(JSON.stringify(watcher.conversation)), { conversationId, messages, settlements });
}
