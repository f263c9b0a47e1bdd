import assert from 'node:assert/strict';

import { control } from './suite.mjs';

/** Orders the Go test to kill, stop or start the server. */
async function order(what) {
  const response = await fetch(`${control}/${what}`, { method: 'POST' });
  assert.equal(response.status, 204, `${what}: ${await response.text()}`);
}

/**
 * Outages of one server that many cases share, because each takes seconds. The
 * server goes down once all cases have called down(), and comes back once all
 * have called up(). Ended cases are not waited for, so each case can take part
 * in any number of outages.
 */
class Outages {
  constructor(kind, cases) {
    this.kind = kind;
    this.present = cases;
    this.arrived = [];
    this.up = true;
  }

  /** The argument of a case, which calls down() and up() in turn. */
  get visit() {
    return {
      /** Resolves when the server is down. meanwhile is called right before. */
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

  /** Removes an ended case. */
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
