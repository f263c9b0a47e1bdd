// The unmodified page of examples/hello with that program.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { JSDOM } from 'jsdom';

import { eventually, required, unique } from './suite.mjs';

/** The agent of examples/hello, and a folder with its page and the packages that it imports. */
const program = required('PARLEY_PROGRAM_URL');
const pageFolder = required('PAGE_FOLDER');

const html = await readFile(join(pageFolder, 'page.html'), 'utf8');
const network = globalThis.fetch;

/** Opens the page at a conversation as a browser does, while see runs. */
async function opened(conversation, see) {
  const { window } = new JSDOM(html, { url: `http://localhost:3000/#${conversation}`, pretendToBeVisual: true });
  const { document, location } = window;
  const left = new AbortController();
  // Leaving the page ends its requests: the client gets no response any more.
  const fetch = (input, init) => (left.signal.aborted ? Response.json({}, { status: 404 })
    : network(input, { ...init, signal: AbortSignal.any([left.signal, init?.signal].filter(Boolean)) }));
  const named = Object.fromEntries([...document.querySelectorAll('[id]')].map((element) => [element.id, element]));
  for (const [name, value] of Object.entries({ window, document, location, fetch, ...named })) {
    Object.defineProperty(globalThis, name, { value, configurable: true });
  }
  const [script] = document.querySelectorAll('script[type=module]');
  const file = join(pageFolder, `${unique('script')}.mjs`);
  await writeFile(file, script.textContent);
  await import(pathToFileURL(file));
  try {
    await see({
      says: (text) => {
        named.words.value = text;
        named.say.dispatchEvent(new window.Event('submit', { cancelable: true }));
      },
      shows: (text) => eventually(() => named.chat.textContent === text, `${JSON.stringify(text)} where there is ${JSON.stringify(named.chat.textContent)}`),
    });
  } finally {
    left.abort();
  }
}

test('the page shows messages and answers', async () => {
  await opened(`${program}/${unique()}`, async (page) => {
    page.says('hello there');
    await page.shows('user: hello there\nassistant: You said: hello there (2 words)\n');
    page.says('long 3');
    await page.shows('user: hello there\nassistant: You said: hello there (2 words)\nuser: long 3\nassistant: 1 2 3\n');
  });
});

test('the reopened page shows the conversation', async () => {
  const conversation = `${program}/${unique()}`;
  await opened(conversation, async (page) => {
    page.says('long 3');
    await page.shows('user: long 3\nassistant: 1 2 3\n');
  });
  await opened(conversation, (page) => page.shows('user: long 3\nassistant: 1 2 3\n'));
});
