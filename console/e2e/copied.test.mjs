// Copied commands and programs repeat the action: commands are run, programs are compiled and run.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';

import { Browser, chat, config, over, post, press, release, root, say, Server, shows, unique, until, words } from './harness.mjs';

const token = 'the-token';
const run = promisify(execFile);

let dev, serve, browser, folder;
before(async () => {
  const locked = (listen) => `${config(listen)}console: true\nauth: {bearerEnv: CONSOLE_TOKEN}\ncors: {origins: ['https://app.example.com'], headers: [X-Tenant, Content-Type]}\n`;
  [dev, serve, browser] = await Promise.all([new Server().start(), new Server(['serve'], locked).start({ CONSOLE_TOKEN: token }), Browser.start()]);
  folder = mkdtempSync(join(tmpdir(), 'console-copied-'));
  // A module that replaces Parley by this checkout, and a package with the public client.
  writeFileSync(join(folder, 'go.mod'), `module example.com/copied\n\ngo 1.26\n\nrequire github.com/parleyrun/parley v0.0.0\n\nreplace github.com/parleyrun/parley => ${root}\n`);
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}\n');
  symlinkSync(join(root, 'test/clients/node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({
    compilerOptions: { target: 'es2023', module: 'nodenext', strict: true, skipLibCheck: true, outDir: 'out', rootDir: '.', types: ['node'], typeRoots: [join(root, 'console/node_modules/@types')] },
    include: ['*.ts'],
  }));
});
after(async () => {
  await browser?.close();
  await Promise.all([dev?.close(), serve?.close()]);
  if (folder) rmSync(folder, { recursive: true, force: true });
});

/** The texts that the copy buttons below the last match of a selector copy, by language. */
async function copied(page, selector) {
  await page.browserContext().overridePermissions(new URL(page.url()).origin, ['clipboard-read', 'clipboard-write', 'clipboard-sanitized-write']);
  const found = {};
  const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
  await over(page);
  for (const language of ['curl', 'Go', 'TypeScript']) {
    const button = await page.evaluateHandle((s, name) => [...[...document.querySelectorAll(s)].at(-1).querySelectorAll('.actions button')].find((b) => b.textContent === name), selector, `as ${language}`);
    const before = await clipboard();
    await button.hover();
    await button.click();
    found[language] = await until(async () => {
      const text = await clipboard();
      return text !== before && text;
    });
  }
  return found;
}

const programs = [];

/** Keeps a program to be compiled, with the others, in the languages that will be run. */
function keep({ Go, TypeScript, curl }) {
  const name = `p${programs.length}`;
  if (Go) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'main.go'), Go);
  }
  if (TypeScript) writeFileSync(join(folder, `${name}.ts`), TypeScript);
  programs.push(name);
  return { name, curl };
}

/** Each way to run what was copied; the output is a text. */
const ways = {
  curl: ({ curl }) => run('bash', ['-c', `${curl} --silent --show-error --fail-with-body`], { env: environment() }).then((r) => r.stdout),
  Go: ({ name }) => run(join(folder, 'bin', name), { env: environment() }).then((r) => r.stdout),
  TypeScript: ({ name }) => run(process.execPath, [join(folder, 'out', `${name}.js`)], { env: environment() }).then((r) => r.stdout),
};
const environment = () => ({ ...process.env, PARLEY_TOKEN: token, X_TENANT: 'acme' });

/** The conversation at a URL. */
const history = (url, headers = {}) => fetch(url, { headers }).then((r) => r.json());
const said = (snapshot) => snapshot.messages.filter((m) => m.role === 'user').map((m) => m.parts.find((p) => p.type === 'text')?.text);

test('what is copied is run, and does what was done', async () => {
  const nasty = `it's "x" $HOME \`id\`\\n \\ %s é 𝄞 \u2028 \u007f \t end`;
  const id = unique('copied');
  const kept = {};
  await browser.look(chat(dev, id), async (page) => {
    await say(page, nasty);
    await shows(page, '.message.assistant', 'You said');
    kept.message = keep(await copied(page, '.message.user'));
  }, { tolerated: /404/ });
  // A conversation with initial data, and another one created by a program.
  const begun = unique('begun');
  const order = 4711;
  await browser.look(chat(dev, begun, 'booked'), async (page) => {
    await page.waitForSelector('.initial input[type=number]');
    await page.type('.initial input[type=number]', String(order));
    await say(page, 'tokens=3', '.composer textarea');
    await shows(page, '.message.assistant', words(3));
    const texts = await copied(page, '.message.user');
    kept.initial = ['curl', 'Go', 'TypeScript'].map((way) => {
      const other = unique('anew');
      return { other, way, ...keep({ [way]: texts[way].replace(begun, other) }) };
    });
  }, { tolerated: /404/ });
  // A server with a token.
  const locked = unique('locked');
  await browser.look(chat(serve, locked), async (page) => {
    await page.waitForSelector('input[type=password]');
    await page.type('input[type=password]', token);
    await page.keyboard.press('Enter');
    await say(page, 'tokens=2', '.composer textarea');
    await shows(page, '.message.assistant', words(2));
    const texts = await copied(page, '.message.user');
    assert.ok(!Object.values(texts).join('').includes(token), 'the token itself is not copied');
    for (const [way, text] of Object.entries(texts)) assert.match(text, /X_TENANT/, way);
    kept.locked = keep(texts);
  }, { tolerated: /401|404/ });
  // Aborted work.
  const stopped = unique('stopped');
  await browser.look(chat(dev, stopped), async (page) => {
    await say(page, `tokens=2 hold=${unique('gate')}`);
    await shows(page, '.message.assistant', words(2));
    await press(page, 'button.stop');
    await shows(page, '.outcome', 'Stopped');
    kept.abort = keep(await copied(page, '.outcome'));
  }, { tolerated: /404/ });

  await Promise.all([
    run('go', ['build', '-mod=mod', '-o', join(folder, 'bin') + '/', './...'], { cwd: folder }),
    run(process.execPath, [join(root, 'console/node_modules/typescript/bin/tsc'), '-p', folder]).catch((e) => assert.fail(e.stdout)),
  ]);

  const headers = { Authorization: `Bearer ${token}` };
  const all = Object.entries(ways);
  for (const [i, [way, go]] of all.entries()) {
    const out = await go(kept.message);
    assert.match(out, way === 'curl' ? /"submissionId":"sub_/ : /^You said: it's "x" \$HOME/, way);
    const at = `${dev.base}/agents/helper/${id}`;
    const now = await until(async () => { const h = await history(at); return h.settlements.length === i + 2 && h; });
    assert.deepEqual(said(now), Array(i + 2).fill(nasty), `${way} says the same, to the letter`);
    assert.ok(now.settlements.every((s) => s.outcome === 'completed'));

    const one = kept.initial.find((k) => k.way === way);
    assert.match(await go(one), way === 'curl' ? /sub_/ : new RegExp(words(3)), way);
    assert.deepEqual(said(await history(`${dev.base}/agents/booked/${one.other}`)), ['tokens=3']);

    assert.match(await go(kept.locked), way === 'curl' ? /sub_/ : new RegExp(words(2)), way);
    await until(async () => (await history(`${serve.base}/agents/helper/${locked}`, headers)).settlements.length === i + 2);

    const gate = unique('gate');
    await post(dev, stopped, `tokens=1 hold=${gate}`);
    assert.match(await go(kept.abort), /true/, way);
    await until(async () => (await history(`${dev.base}/agents/helper/${stopped}`)).settlements.filter((s) => s.outcome === 'aborted').length === i + 2);
    await release(gate);
  }
});
