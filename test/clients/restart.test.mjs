// The server is killed, or shuts down, while clients are active, and restarts at
// the same address: no acknowledged message is lost, and no client sees a gap or
// a duplicate.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';

import { betaClient, deltas, everything, followed as followedBeta, line, sdks } from './beta.mjs';
import { showing } from './hook.mjs';
import { secondOpinion } from './opinion.mjs';
import { sharing } from './outages.mjs';
import { Proxy } from './proxy.mjs';
import { ask, conversation, eventually, modelCalls, observing, ofRole, picture, release, restarted, sameAsHistory, say, textOf, token, unique, Watcher, words } from './suite.mjs';

/** The outages of cases with several of them. */
const rounds = [0, 1, 2];

/** The model's answer to the advisory that its reply was interrupted. */
const continued = /^You said: <advisory>/;

const textParts = (message) => message.parts.filter(({ type }) => type === 'text').map(({ text }) => text);
const outcomes = ({ settlements }) => settlements.map(({ submissionId, outcome }) => [submissionId, outcome]);
const completed = (...admissions) => admissions.map(({ submissionId }) => [submissionId, 'completed']);

/** The reply was interrupted after the text said, and continued after an advisory. */
function wentOn(message, said) {
  const texts = textParts(message);
  assert.deepEqual([texts.length, texts[0]], [2, said]);
  assert.match(texts[1], continued);
  for (const { state } of message.parts) assert.equal(state, 'done');
}

/** The reply is complete, or was interrupted somewhere and continued. */
function answered(state, { submissionId }, whole) {
  const messages = ofRole(state, 'assistant').filter((message) => message.submissionId === submissionId);
  assert.equal(messages.length, 1);
  const [said, ...more] = textParts(messages[0]);
  if (more.length === 0) {
    assert.equal(said, whole);
    return;
  }
  assert.ok(whole.startsWith(said), `${said} is not a prefix of ${whole}`);
  wentOn(messages[0], said);
}

/** Follows a submission with wait(), and records the chunks. */
function following(client, admission) {
  const chunks = [];
  return { chunks, over: client.wait(admission, { onEvent: (chunk) => void chunks.push(chunk) }) };
}

/** Chunks have no duplicates, are in order, and add up to the message. */
function gapless(chunks, message) {
  for (let i = 1; i < chunks.length; i++) {
    const [a, b] = [chunks[i - 1].position, chunks[i].position];
    assert.ok(a.batch < b.batch || (a.batch === b.batch && a.index < b.index), `position ${JSON.stringify(b)} comes after ${JSON.stringify(a)}`);
  }
  const said = chunks.filter(({ type, messageId }) => type === 'message-delta' && messageId === message.id);
  for (const kind of ['reasoning', 'text']) {
    const stands = message.parts.filter(({ type }) => type === kind).map(({ text }) => text);
    assert.equal(said.filter((delta) => delta.kind === kind).map(({ delta }) => delta).join(''), stands.join(''));
  }
}

/** Observes new conversations, one for each mount. */
async function watching(mounts, test) {
  const clients = mounts.map((mount) => conversation(mount));
  const watchers = clients.map((client, i) => new Watcher(client, { live: i % 2 ? 'sse' : 'long-poll' }));
  try {
    await test(clients, watchers);
  } finally {
    for (const watcher of watchers) watcher.close();
  }
}

/** A reply that is followed in every way during an outage. */
function followed(mount, live) {
  return async ({ down, up }) => {
    const client = conversation(mount);
    const gate = unique('gate');
    const admission = await say(client, `reasoning=2 tokens=5 hold=${gate} tokens=5`);
    const wait = following(client, admission);
    await observing(client, { live }, async (watcher) => {
      await watcher.untilText(words(5));
      await down();
      assert.equal(textOf(ofRole(watcher.conversation, 'assistant')[0]), words(5), 'the visible text remains');
      await up();
      await watcher.untilSettled(admission);
      await sameAsHistory(watcher, client);
      await wait.over;
      const [message] = ofRole(watcher.conversation, 'assistant');
      wentOn(message, words(5));
      gapless(wait.chunks, message);
      assert.deepEqual(outcomes(watcher.conversation), completed(admission));
      assert.deepEqual(ofRole(watcher.conversation, 'system').map(({ purpose, display }) => [purpose, display]), [['advisory', 'hidden']]);
      const reply = await client.read(admission.submissionId);
      assert.equal(reply.text, textParts(message).join('\n\n'));
      await secondOpinion(client);
    });
  };
}

/** The same for a client of the beta line, which resumes from its offset. */
function followedByBeta(sdk, mount, live) {
  return async ({ down, up }) => {
    const client = betaClient(sdk, mount);
    const { name } = line(mount);
    const id = unique();
    await client.agents.prompt(name, id, { message: 'Hello' });
    const admission = await client.agents.send(name, id, { message: `tokens=5 hold=${unique('gate')} tokens=5` });
    let seen = '';
    let over;
    await new Promise((heard) => {
      over = followedBeta(client, name, id, admission, live, (event) => {
        if (event.type === 'text_delta' && (seen += event.text) === words(5)) heard();
      });
    });
    await down();
    await up();
    const events = await over;
    const ends = events.filter(({ type, message }) => type === 'message_end' && message.role === 'assistant');
    assert.deepEqual(ends.map(({ message }) => message.content.map(({ text }) => text).join('')).slice(0, 1), [words(5)]);
    assert.match(deltas(events).slice(words(5).length), continued);
    assert.equal(events.at(-1).outcome, 'completed');
    const all = await everything(client, name, id);
    assert.deepEqual(all.filter(({ submissionId }) => submissionId === admission.submissionId), events, 'one stream before and after');
  };
}

const cases = {
  'a beta client follows: sse': followedByBeta(sdks['beta.7'], restarted.completions, 'sse'),
  'a beta client follows: long-poll': followedByBeta(sdks['beta.5'], restarted.messages, 'long-poll'),
  'a reply is followed: sse, completions': followed(restarted.completions, 'sse'),
  'a reply is followed: sse, messages': followed(restarted.messages, 'sse'),
  'a reply is followed: long-poll, completions': followed(restarted.completions, 'long-poll'),
  'a reply is followed: long-poll, messages': followed(restarted.messages, 'long-poll'),

  'several replies, and queued submissions': async ({ down, up }) => {
    const mounts = Array.from({ length: 6 }, (_, i) => (i % 2 ? restarted.messages : restarted.completions));
    await watching(mounts, async (clients, watchers) => {
      const begin = async (client, i) => {
        const admissions = [await say(client, `tokens=3 hold=${unique('gate')}`), await say(client, 'second'), await say(client, 'tokens=20')];
        watchers[i].observation.refresh();
        await watchers[i].untilText(words(3));
        return { admissions, waits: admissions.map((admission) => following(client, admission)) };
      };
      const replies = await Promise.all(clients.map(begin));
      await down();
      await up();
      for (const [i, { admissions, waits }] of replies.entries()) {
        await watchers[i].untilSettled(admissions[2]);
        await sameAsHistory(watchers[i], clients[i]);
        const state = watchers[i].conversation;
        assert.deepEqual(outcomes(state), completed(...admissions), 'once each, in their order');
        const messages = ofRole(state, 'assistant');
        assert.equal(messages.length, 3);
        wentOn(messages[0], words(3));
        assert.deepEqual(messages.slice(1).map(textOf), ['You said: second', words(20)]);
        for (const [n, wait] of waits.entries()) {
          await wait.over;
          gapless(wait.chunks, messages[n]);
        }
      }
    });
  },

  'fast replies all the time': async ({ down, up }) => {
    const client = conversation(restarted.completions);
    for (const round of rounds) {
      const admission = await say(client, `tokens=1000000 pace=1ms note=${round}`);
      const wait = following(client, admission);
      await observing(client, { live: round % 2 ? 'sse' : 'long-poll' }, async (watcher) => {
        await watcher.until(({ conversation }) => textOf(ofRole(conversation, 'assistant')[round] ?? { parts: [] }).includes('w30 '), 'thirty words');
        await down();
        await up();
        await watcher.untilSettled(admission);
        await wait.over;
        await sameAsHistory(watcher, client);
        const message = ofRole(watcher.conversation, 'assistant')[round];
        const [said] = textParts(message);
        assert.equal(said, words(said.split(' ').length), 'no word is missing or duplicated');
        wentOn(message, said);
        gapless(wait.chunks, message);
      });
    }
    await secondOpinion(client);
  },

  'no output yet, and no client': async ({ down, up }) => {
    const client = conversation(restarted.messages);
    const gate = unique('gate');
    const admission = await say(client, `hold=${gate} tokens=5`);
    const calls = (n) => eventually(async () => (await modelCalls(gate)).length === n, `${n} calls of the model`);
    await calls(1);
    await down();
    await up();
    // The conversation has had no request since.
    await calls(2);
    await release(gate);
    assert.equal((await client.read(admission)).text, words(5));
    assert.equal((await modelCalls(gate)).length, 2);
    assert.deepEqual((await client.history()).messages.map(({ role }) => role), ['user', 'assistant']);
  },

  'one reply through all outages': async ({ down, up }) => {
    const client = conversation(restarted.completions);
    const gate = unique('gate');
    const steps = rounds.map((round) => `hold=${gate}-${round + 1} tokens=3 tool=nonsense {} then`);
    const admission = await say(client, `say="Begun." tool=nonsense {} then ${steps.join(' ')} hold=${gate}-4 tokens=3`);
    const wait = following(client, admission);
    await observing(client, { live: 'sse' }, async (watcher) => {
      for (const round of rounds) {
        const step = round + 1;
        await eventually(async () => (await modelCalls(gate)).some((call) => call.step === step), `step ${step}`);
        await down();
        await up();
        await release(`${gate}-${step}`);
      }
      await release(`${gate}-4`);
      await watcher.untilSettled(admission);
      await wait.over;
      await sameAsHistory(watcher, client);
      const [message] = ofRole(watcher.conversation, 'assistant');
      assert.deepEqual(textParts(message), ['Begun.', words(3), words(3), words(3), words(3)]);
      gapless(wait.chunks, message);
      assert.deepEqual((await modelCalls(gate)).map(({ step }) => step), [0, 1, 1, 2, 2, 3, 3, 4], 'the model does not repeat its text');
      await secondOpinion(client);
    });
  },

  'aborts in flight': async ({ down, up }) => {
    const mounts = Array.from({ length: 4 }, (_, i) => (i % 2 ? restarted.messages : restarted.completions));
    await watching(mounts, async (clients, watchers) => {
      const begin = async (client, i) => {
        const admissions = [await say(client, 'tokens=3 hang=1'), await say(client, 'waits')];
        watchers[i].observation.refresh();
        await watchers[i].untilText(words(4));
        return admissions;
      };
      const replies = await Promise.all(clients.map(begin));
      // The first abort is acknowledged before the outage; the outcome of the others is open.
      const [first, ...others] = clients;
      const answers = [await first.abort()];
      assert.deepEqual(answers, [{ aborted: true }]);
      await down(() => answers.push(...others.map((client) => client.abort().catch(() => ({ aborted: false })))));
      const acknowledged = await Promise.all(answers);
      await up();
      for (const [i, admissions] of replies.entries()) {
        for (const admission of admissions) await watchers[i].untilSettled(admission);
        await sameAsHistory(watchers[i], clients[i]);
        const state = watchers[i].conversation;
        const settled = outcomes(state);
        assert.deepEqual(settled.map(([id]) => id), admissions.map(({ submissionId }) => submissionId), 'once each');
        if (acknowledged[i].aborted) assert.deepEqual(settled.map(([, outcome]) => outcome), ['aborted', 'aborted']);
        assert.equal(textParts(ofRole(state, 'assistant')[0])[0], words(4));
        await secondOpinion(clients[i]);
      }
    });
  },

  'messages in flight': async ({ down, up }) => {
    const client = conversation(restarted.completions);
    await ask(client, 'Hello');
    const keys = [];
    const send = (key) => say(client, key, { idempotencyKey: key });
    await observing(client, { live: 'sse' }, async (watcher) => {
      await watcher.until(({ phase }) => phase === 'live', 'the live phase');
      for (const round of rounds) {
        const more = Array.from({ length: 12 }, (_, i) => `message ${round}.${i}`);
        keys.push(...more);
        let first;
        await down(() => (first = Promise.allSettled(more.map(send))));
        first = await first;
        await up();
        const admissions = await Promise.all(more.map(send));
        for (const [i, { status, value }] of first.entries()) {
          if (status === 'rejected') continue;
          assert.equal(admissions[i].submissionId, value.submissionId, 'the admitted message exists');
          assert.equal(admissions[i].deduplicated, true);
        }
        for (const admission of admissions) await watcher.untilSettled(admission);
        await sameAsHistory(watcher, client);
        for (const [i, admission] of admissions.entries()) answered(watcher.conversation, admission, `You said: ${more[i]}`);
      }
      const users = ofRole(watcher.conversation, 'user').slice(1);
      assert.deepEqual(users.map(textOf).toSorted(), keys.toSorted(), 'each message once');
      assert.deepEqual(outcomes(watcher.conversation).slice(1), completed(...users), 'each answered once, in their order');
    });
  },

  'a receipt is lost': async ({ down, up }) => {
    const id = unique();
    const direct = conversation(restarted.messages, { id });
    const proxy = await Proxy.before(restarted.messages);
    try {
      const behind = conversation(proxy.mount, { id, fetch: proxy.fetch });
      const bytes = picture(100_000);
      const attachments = [{ type: 'image', data: bytes.toString('base64'), mimeType: 'image/png' }];
      const send = (client) => client.send({ message: { kind: 'user', body: 'Look', attachments }, idempotencyKey: 'one', uid: null });
      proxy.cut = { after: 'HTTP/1.1 202', bytes: 0 };
      await assert.rejects(send(behind));
      await down();
      await up();
      const admission = await send(direct);
      assert.equal(admission.deduplicated, true);
      await direct.wait(admission);
      const state = await direct.history();
      answered(state, admission, `You said: Look [image/png ${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}]`);
      assert.equal(ofRole(state, 'user').length, 1);
      const { url } = state.messages[0].parts.find(({ type }) => type === 'file');
      const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
      assert.ok(Buffer.from(await response.arrayBuffer()).equals(bytes));
    } finally {
      await proxy.close();
    }
  },

  'a client connects during the outage': async ({ down, up }) => {
    const id = unique();
    await ask(conversation(restarted.completions, { id }), 'Hello');
    await down();
    const client = conversation(restarted.completions, { id });
    await assert.rejects(client.history());
    await assert.rejects(say(client, 'x'));
    await observing(client, { live: 'sse' }, async (watcher) => {
      await watcher.until(({ error, phase }) => error && phase === 'connecting', 'the first attempt');
      await up();
      await watcher.until(({ phase }) => phase === 'live', 'the live phase');
      await sameAsHistory(watcher, client);
      const admission = await say(client, 'tokens=5');
      await watcher.untilSettled(admission);
      await sameAsHistory(watcher, client);
      assert.equal(ofRole(watcher.conversation, 'assistant').length, 2, 'the rejected message was not admitted');
    });
  },

  'a page follows a reply': async ({ down, up }) => {
    const client = conversation(restarted.completions);
    const gate = unique('gate');
    await showing({ client }, async (page) => {
      const { sent, item } = page.send(`tokens=5 hold=${gate}`);
      await sent;
      await page.untilText('assistant', words(5));
      await down();
      assert.equal(page.status, 'streaming');
      await assert.rejects(page.send('Is anybody there?').sent);
      assert.equal(page.agent.failedSends.length, 1);
      await up();
      await page.until(() => page.status === 'error', 'the end of the reply');
      assert.equal(page.items('user')[0], item);
      const { messages } = await client.history();
      wentOn(ofRole({ messages }, 'assistant')[0], words(5));
      await page.send('Hello again').sent;
      await page.untilText('assistant', 'You said: Hello again');
      await page.untilStatus('idle');
      assert.equal(page.items().length, (await client.history()).messages.length);
    });
  },
};

test('the server is killed', { concurrency: true }, (t) => sharing(t, 'kill', cases));
test('the server shuts down', { concurrency: true }, (t) => sharing(t, 'stop', cases));
