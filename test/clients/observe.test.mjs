// Observing, in both live modes and with both wire formats of the model.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { conversation, observing, ofRole, release, sameAsHistory, say, served, textOf, unique, words } from './suite.mjs';

for (const live of ['sse', 'long-poll']) {
  for (const [format, mount] of Object.entries(served)) {
    test(`a response is observed while it streams: ${live}, ${format}`, async () => {
      const client = conversation(mount);
      await client.wait(await say(client, 'Hello'));
      await observing(client, { live }, async (watcher) => {
        await watcher.until(({ phase }) => phase === 'live', 'the live phase');
        const gate = unique('gate');
        const admission = await say(client, `reasoning=3 hold=${gate}-1 tokens=5 hold=${gate}-2 tokens=5`);
        const parts = () => watcher.conversation.messages.at(-1).parts;

        await watcher.until(() => parts()[0]?.text === 't1 t2 t3', 'the reasoning');
        assert.deepEqual(parts(), [{ type: 'reasoning', text: 't1 t2 t3', state: 'streaming' }]);
        await release(`${gate}-1`);
        await watcher.until(() => parts()[1]?.text === words(5), 'the first words');
        assert.deepEqual(parts(), [
          { type: 'reasoning', text: 't1 t2 t3', state: 'done' },
          { type: 'text', text: words(5), state: 'streaming' },
        ]);
        await sameAsHistory(watcher, client);

        await release(`${gate}-2`);
        await watcher.untilSettled(admission);
        assert.deepEqual(parts(), [
          { type: 'reasoning', text: 't1 t2 t3', state: 'done' },
          { type: 'text', text: words(10), state: 'done' },
        ]);
        await sameAsHistory(watcher, client);
        assert.deepEqual(ofRole(watcher.conversation, 'user').map(textOf).length, 2, 'the sent message is visible');
      });
    });
  }

  test(`an observation before the first message: ${live}`, async () => {
    const client = conversation(served.completions);
    await observing(client, { live }, async (watcher) => {
      const { conversation: none, error } = await watcher.until(({ phase }) => phase === 'absent', 'the absent phase');
      assert.equal(none, undefined);
      assert.equal(error, undefined);

      const admission = await say(client, 'tokens=3');
      watcher.observation.refresh();
      await watcher.untilSettled(admission);
      assert.equal(watcher.phase, 'live');
      assert.equal(textOf(watcher.conversation.messages.at(-1)), words(3));
      await sameAsHistory(watcher, client);
    });
  });

  test(`all observers see the same: ${live}`, async () => {
    const client = conversation(served.messages);
    await say(client, 'tokens=1');
    const watch = (test) => observing(client, { live }, test);
    await watch((one) =>
      watch((two) =>
        watch(async (three) => {
          const admission = await say(client, 'reasoning=2 tokens=40 pace=1ms');
          for (const watcher of [one, two, three]) {
            await watcher.untilSettled(admission);
            await sameAsHistory(watcher, client);
          }
        }),
      ),
    );
  });

  test(`close ends an observation: ${live}`, async () => {
    const client = conversation(served.completions);
    await client.wait(await say(client, 'Hello'));
    const controller = new AbortController();
    await observing(client, { live, signal: controller.signal }, async (watcher) => {
      await watcher.until(({ phase }) => phase === 'live', 'the live phase');
      controller.abort();
      await watcher.until(({ phase }) => phase === 'closed', 'the closed phase');
    });
  });
}
