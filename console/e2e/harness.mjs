// Shared by the tests: "parley dev" as a process, and a real browser. Waits end when a condition
// holds, never after a fixed time.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import puppeteer from 'puppeteer-core';

/** The timeout of a condition. */
export const patience = 120_000;

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are run by "go test ./console"`);
  return value;
}

export const program = required('CONSOLE_PROGRAM');
/** A program with an agent that has tools, data, metadata, subagents and waits. */
export const author = required('CONSOLE_AUTHOR');
/** The folder of the module. */
export const root = required('CONSOLE_ROOT');
const browserProgram = required('CONSOLE_BROWSER');
/** A loopback address at which no other process takes the port of a stopped server. */
const host = required('CONSOLE_HOST');
export const model = required('MODEL_URL');
/** The folder of screenshots; by default none. */
export const shots = process.env.CONSOLE_SHOTS;

/** parley.yaml: an agent whose model is scripted by messages, and one with initial data. */
export const config = (listen, agents = '') => `
listen: ${listen}
bucket: {dir: data}
providers:
  fake:
    api: openai-completions
    baseUrl: "${model}/v1"
    apiKeyEnv: MODEL_KEY
    models: {m1: {contextWindow: 1000000, maxTokens: 100000, reasoning: true, input: [text, image]}}
agents:
  helper: {mounts: [/agents/helper], model: fake/m1, thinkingLevel: low, description: Helps.}
  booked:
    mounts: [/agents/booked]
    model: fake/m1
    initialData: {type: object, required: [order], properties: {order: {type: integer, description: Its number.}, rush: {type: boolean}}}
${agents}`;

/** A program that serves a folder, can be killed, and serves it again. Without a configuration it serves the demo. */
export class Server {
  constructor(args = ['dev'], text = config, run = program) {
    this.dir = mkdtempSync(join(tmpdir(), 'console-'));
    this.run = run;
    this.args = args;
    this.file = join(this.dir, 'parley.yaml');
    this.address = `${host}:0`;
    if (!text) return;
    this.args = [...args, '--config', this.file];
    writeFileSync(this.file, text(this.address));
  }

  /** Starts the process and returns once it serves. */
  async start(env = {}) {
    this.log = '';
    this.process = spawn(this.run, [...this.args, '--quiet', '--listen', this.address], {
      cwd: this.dir, env: { ...process.env, MODEL_KEY: 'the-model-s-key', CONSOLE_AS_AUTHOR: this.run === author ? '1' : '', ...env }, stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.ended = new Promise((resolve) => this.process.on('exit', resolve));
    this.process.stderr.on('data', (b) => (this.log += b));
    const url = await within(
      new Promise((resolve, reject) => {
        let out = '';
        this.process.stdout.on('data', (b) => {
          out += b;
          if (out.includes('\n')) resolve(out.slice(0, out.indexOf('\n')));
        });
        this.ended.then(() => reject(new Error(`the server ended: ${this.log}`)));
      }),
      'the server',
    );
    this.base = new URL(url).origin;
    this.address = new URL(url).host;
    return this;
  }

  async kill() {
    this.process.kill('SIGKILL');
    await this.ended;
  }

  async close() {
    if (this.process) await this.kill();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** A browser; an error in a page's console fails the test, unless the test has caused it. */
export class Browser {
  static async start() {
    const b = new Browser();
    // Containers have no sandbox, and root may not use one.
    b.browser = await puppeteer.launch({
      executablePath: browserProgram, args: ['--no-sandbox', '--disable-dev-shm-usage'], timeout: patience, protocolTimeout: 2 * patience,
    });
    return b;
  }

  /** Opens an address, runs test, and requires that all console errors match tolerated. */
  async look(url, test, { tolerated = /^$/, width = 1280, height = 800 } = {}) {
    const context = await this.browser.createBrowserContext();
    const page = await context.newPage();
    const complaints = [];
    page.on('console', (m) => ['error', 'warn', 'assert'].includes(m.type()) && complaints.push(`${m.text()} ${m.location()?.url ?? ''}`));
    page.on('pageerror', (e) => complaints.push(String(e)));
    page.on('request', (r) => {
      const at = new URL(r.url());
      if (!['data:', 'blob:'].includes(at.protocol) && at.origin !== new URL(url).origin) complaints.push(`asked for ${r.url()}`);
    });
    page.setDefaultTimeout(patience);
    await page.setViewport({ width, height });
    try {
      await page.goto(url, { waitUntil: 'load' });
      await test(page);
      assert.deepEqual(complaints.filter((c) => !tolerated.test(c)), [], 'the browser complains');
    } catch (error) {
      if (shots) await page.screenshot({ path: join(shots, 'failed.png') });
      throw error;
    } finally {
      await context.close();
    }
  }

  close() {
    return this.browser.close();
  }
}

/** Takes a screenshot, if a folder is set. */
export async function shot(page, name) {
  if (!shots) return;
  for (const scheme of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    await page.screenshot({ path: join(shots, `${name}-${scheme}.png`) });
  }
  const { width, height } = page.viewport();
  await page.emulateMediaFeatures([]);
  await page.setViewport({ width: 360, height: 740 });
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  for (const scheme of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: scheme }]);
    await page.screenshot({ path: join(shots, `${name}-narrow-${scheme}.png`) });
  }
  await page.emulateMediaFeatures([]);
  await page.setViewport({ width, height });
}

/** Rejects after the timeout. */
export function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`still waiting for ${what}`)), patience)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Polls until the result is truthy. */
export async function until(check) {
  for (const end = Date.now() + patience; ; ) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`still waiting for ${check}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** The address of a conversation in the page. */
export const chat = (server, id, agent = 'helper') => `${server.base}/#/chat/${encodeURIComponent(`/agents/${agent}`)}/${encodeURIComponent(id)}`;

let last = 0;
export const unique = (name) => `${name}-${process.pid}-${++last}`;

/** Writes a message and sends it. */
export async function say(page, text, at = 'textarea') {
  await page.waitForSelector(at);
  await page.focus(at);
  await page.keyboard.sendCharacter(text);
  await page.keyboard.press('Enter');
}

/** Sends a message without the page. */
export async function post(server, id, body, agent = 'helper') {
  const response = await fetch(`${server.base}/agents/${agent}/${encodeURIComponent(id)}`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ kind: 'user', body }),
  });
  assert.equal(response.status, 202);
  return response.json();
}

/** Clicks the first match of a selector at its current position. */
export async function press(page, selector) {
  await page.waitForSelector(selector);
  await page.$eval(selector, (e) => e.click());
}

/** Waits until the last match of a selector contains a text. */
export async function shows(page, selector, text) {
  try {
    await page.waitForFunction((s, t) => [...document.querySelectorAll(s)].at(-1)?.textContent.includes(t), {}, selector, text);
  } catch (cause) {
    const now = await page.evaluate((s) => [...document.querySelectorAll(s)].map((e) => e.textContent).join(' | ') || document.body.innerText, selector);
    throw new Error(`${selector} never shows ${JSON.stringify(text)}, but ${JSON.stringify(now.slice(-600))}`, { cause });
  }
}

/** Waits until every message is settled, so that the layout is stable for clicks. */
export const over = (page) => page.waitForFunction(() => !document.querySelector('button.stop') && !document.querySelector('.pending'));

/** The texts of the matches of a selector. */
export const texts = (page, selector) => page.$$eval(selector, (all) => all.map((e) => e.textContent));

/** Releases the model where a script has hold=gate. */
export async function release(gate) {
  const response = await fetch(`${model}/release/${encodeURIComponent(gate)}`, { method: 'POST' });
  assert.equal(response.status, 204);
}

/** w1 … wN, the answer to tokens=N. */
export const words = (n, from = 1) => Array.from({ length: n - from + 1 }, (_, i) => `w${from + i}`).join(' ');
