// What the tests share: clients of the servers that the Go test started, and
// ways to wait that end when something happened, never when time has passed.
import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';

import { createFlueClient } from '@flue/sdk';

/** How long something may take before the test says that it never happens. */
const patience = 120_000;

export function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are run by "go test ./test/clients"`);
  return value;
}

/** Where the model takes its orders and what it says when it fails. */
export const model = required('MODEL_URL');
export const vendorWords = required('MODEL_ERROR_TEXT');

/** The bearer token of "parley serve". */
export const token = required('PARLEY_TOKEN');

/**
 * Agents of "parley serve", one per wire format of the model. Behaviour that may
 * depend on the format is tested with each.
 */
export const served = {
  completions: required('PARLEY_COMPLETIONS_URL'),
  messages: required('PARLEY_MESSAGES_URL'),
};

/** The same agents of a server that control ends and starts again. */
export const restarted = {
  completions: required('PARLEY_RESTARTED_COMPLETIONS_URL'),
  messages: required('PARLEY_RESTARTED_MESSAGES_URL'),
};
export const control = required('PARLEY_CONTROL_URL');

/** Agents of a program that uses the library: with tools, data, hooks. */
export const library = required('PARLEY_LIBRARY_URL');

/** A name nobody else uses. */
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

/** Lets the model go on where a script says hold=gate. */
export async function release(gate) {
  const response = await fetch(`${model}/release/${encodeURIComponent(gate)}`, { method: 'POST' });
  assert.equal(response.status, 204);
}

/** The calls the model saw whose prompt holds text. */
export async function modelCalls(text) {
  const response = await fetch(`${model}/requests`);
  return (await response.json()).filter((call) => call.prompt.includes(text));
}

/** Resolves with what check returns once that is true, asking again and again. */
export async function eventually(check, what) {
  const deadline = Date.now() + patience;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > deadline) throw new Error(`still waiting for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** w1 … wN, as tokens=N is answered. */
export const words = (n, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => `w${from + i}`).join(' ');

/** The text parts of a message, joined. */
/** A picture of n bytes, at least 33, as far as its header goes: nobody looks farther. */
export const picture = (n) => Buffer.concat([
  Buffer.from('89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55', 'hex'), randomBytes(n - 33),
]);

export const textOf = (message) => message.parts.filter((part) => part.type === 'text').map((part) => part.text).join('|');

/** The messages of one role. */
export const ofRole = (state, role) => (state?.messages ?? []).filter((message) => message.role === role);

/** Rejects after the patience has ended. */
export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`still waiting for ${typeof what === 'function' ? what() : what}`)), patience);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/**
 * Observes a conversation and keeps everything it publishes. It checks what holds
 * of every observation unless a call of the model is repeated: a text, once shown,
 * only grows.
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

  /** Resolves with the first snapshot that has what is asked for. */
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

  /** Resolves once a response shows this text. */
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

/** Observes while a test needs it. */
export async function observing(client, options, test) {
  const watcher = new Watcher(client, options);
  try {
    return await test(watcher);
  } finally {
    watcher.close();
  }
}

/**
 * What is observed must be what a snapshot says, to the last field that JSON can
 * hold: the client sets some to undefined.
 */
export async function sameAsHistory(watcher, client) {
  const { conversationId, messages, settlements } = await client.history();
  assert.deepEqual(JSON.parse(JSON.stringify(watcher.conversation)), { conversationId, messages, settlements });
}
