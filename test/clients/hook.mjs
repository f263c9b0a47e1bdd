// The public React hook in a document, without JSX: a component renders the state
// of the hook, and tests read the document and each rendered state.
import assert from 'node:assert/strict';

import { JSDOM } from 'jsdom';

import { within } from './suite.mjs';

// An invisible document would pause the client.
const { window } = new JSDOM('<!doctype html>', { url: 'http://localhost/', pretendToBeVisual: true });
for (const [name, value] of Object.entries({ window, document: window.document, navigator: window.navigator })) {
  Object.defineProperty(globalThis, name, { value, configurable: true });
}

// React needs a document when it is loaded.
const { act, createElement, StrictMode, useLayoutEffect } = await import('react');
const { createRoot } = await import('react-dom/client');
const { useFlueAgent } = await import('@flue/react');

/**
 * Performs a user action, and lets React render its effects before it returns.
 * React renders data of the network at its own time, as in a browser.
 */
export function acting(something) {
  globalThis.IS_REACT_ACT_ENVIRONMENT = true;
  try {
    act(() => void something());
  } finally {
    globalThis.IS_REACT_ACT_ENVIRONMENT = false;
  }
}

const textIn = ({ parts }) => parts.map((part) => ({ text: part.text, reasoning: '', file: `[${part.mediaType}]`, 'dynamic-tool': `(${part.toolName})` })[part.type] ?? '').join('');

function Chat({ options, drawn }) {
  const agent = useFlueAgent(options);
  useLayoutEffect(() => drawn(agent));
  const item = (message) => createElement('li', { key: message.id, id: message.id, 'data-role': message.role }, textIn(message));
  const alert = agent.error && createElement('p', { role: 'alert' }, agent.error.message);
  return createElement('main', null, createElement('output', null, agent.status), createElement('ol', null, agent.messages.map(item)), alert);
}

/** A page that shows one conversation. */
export class Page {
  constructor(options) {
    this.options = options;
    /** The state of the hook at each render; the last one is agent. */
    this.states = [];
    this.waiting = new Set();
    this.container = document.body.appendChild(document.createElement('div'));
    this.drawn = (agent) => {
      this.states.push(agent);
      for (const check of this.waiting) check();
    };
  }

  /** Opens the page, in the mode that runs every effect twice. */
  open() {
    this.root = createRoot(this.container);
    this.show(this.options);
  }

  /** Replaces the conversation. */
  show(options) {
    acting(() => this.root.render(createElement(StrictMode, null, createElement(Chat, { options, drawn: this.drawn }))));
  }

  /** Leaves the page. Later changes are not visible here. */
  close() {
    acting(() => this.root.unmount());
    this.container.remove();
  }

  get agent() {
    return this.states.at(-1);
  }

  get status() {
    return this.container.querySelector('output').textContent;
  }

  get alert() {
    return this.container.querySelector('[role=alert]')?.textContent;
  }

  /** The elements of messages, and their texts. */
  items(role) {
    return [...this.container.querySelectorAll(role ? `li[data-role=${role}]` : 'li')];
  }

  texts(role) {
    return this.items(role).map((item) => item.textContent);
  }

  /**
   * Sends, and checks that the message is in the document at once, before any response
   * of the server can arrive. sent is the promise of the hook: the admission.
   */
  send(text, options) {
    let sent;
    const before = this.items();
    acting(() => {
      sent = this.agent.sendMessage(text, options);
      sent.catch(() => {});
    });
    const item = this.items().at(-1);
    assert.ok(item && !before.includes(item) && item.dataset.role === 'user' && item.textContent.startsWith(text), 'the message is shown at once');
    return { sent, item };
  }

  /** Resolves once the document meets a condition. */
  until(has, what) {
    return within(
      new Promise((resolve) => {
        const check = () => {
          if (!has(this)) return;
          this.waiting.delete(check);
          resolve();
        };
        this.waiting.add(check);
        check();
      }),
      () => `${what}; the page is ${this.container.innerHTML}`,
    );
  }

  untilReady() {
    return this.until(() => this.agent.historyReady, 'the history');
  }

  untilStatus(status) {
    return this.until(() => this.status === status, `the status ${status}`);
  }

  untilText(role, text) {
    return this.until(() => this.texts(role).includes(text), `the text ${text}`);
  }
}

/** Opens a page for the duration of a test. */
export async function showing(options, test) {
  const page = new Page(options);
  page.open();
  try {
    return await test(page);
  } finally {
    page.close();
  }
}

/** Hides or shows the tab that contains all pages. */
export function hide(hidden) {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
  document.dispatchEvent(new window.Event('visibilitychange'));
}
