import assert from 'node:assert/strict';

import { control } from './suite.mjs';

/** Tells the Go test what to do with the server that it restarts. */
async function order(what) {
  const response = await fetch(`${control}/${what}`, { method: 'POST' });
  assert.equal(response.status, 204, `${what}: ${await response.text()}`);
}

/**
 * Outages of one server that many cases share, because each takes seconds: the
 * server goes down once all cases are where they want that to happen, and comes
 * back once all have seen what they wanted to see meanwhile. A case that has ended
 * is not waited for, so each goes through as many outages as it likes.
 */
class Outages {
  constructor(kind, cases) {
    this.kind = kind;
    this.present = cases;
    this.arrived = [];
    this.up = true;
  }

  /** What a case gets: down() and up() by turns. */
  get visit() {
    return {
      /** Resolves when the server is gone. meanwhile is called right before it goes. */
      down: (meanwhile) => this.#arrive(meanwhile),
      /** Resolves when the server serves again. */
      up: () => this.#arrive(),
    };
  }

  #arrive(meanwhile) {
    return new Promise((resolve, reject) => {
      this.arrived.push({ meanwhile, resolve, reject });
      this.#proceed();
    });
  }

  /** A case has ended. */
  leave() {
    this.present--;
    this.#proceed();
  }

  async #proceed() {
    if (this.arrived.length < this.present || this.arrived.length === 0) return;
    const cases = this.arrived;
    this.arrived = [];
    try {
      for (const { meanwhile } of cases) meanwhile?.();
      await order(this.up ? this.kind : 'start');
      this.up = !this.up;
      for (const { resolve } of cases) resolve();
    } catch (error) {
      for (const { reject } of cases) reject(error);
    }
  }
}

/** Runs cases, named functions of { down, up }, as tests that share outages. */
export async function sharing(t, kind, cases) {
  const outages = new Outages(kind, Object.keys(cases).length);
  const run = (name) =>
    t.test(name, async () => {
      try {
        await cases[name](outages.visit);
      } finally {
        outages.leave();
      }
    });
  await Promise.all(Object.keys(cases).map(run));
  if (!outages.up) await order('start');
}
