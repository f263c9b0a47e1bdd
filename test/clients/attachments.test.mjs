// Images, sent and read back.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { test } from 'node:test';

import { conversation, observing, ofRole, picture, sameAsHistory, served, textOf, token } from './suite.mjs';

const fetchBytes = async (url) => {
  const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  return { response, bytes: Buffer.from(await response.arrayBuffer()) };
};

const attachment = (bytes, mimeType, filename) => ({ type: 'image', data: bytes.toString('base64'), mimeType, ...(filename ? { filename } : {}) });
const described = (bytes, mimeType) => `[${mimeType} ${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}]`;

for (const [format, mount] of Object.entries(served)) {
  test(`images reach the model and come back byte for byte: ${format}`, async () => {
    const client = conversation(mount);
    const images = [
      { bytes: picture(3000), mimeType: 'image/png', filename: 'größe 1.png' },
      { bytes: picture(33), mimeType: 'image/png' },
    ];
    const admission = await client.send({
      message: { kind: 'user', body: 'Look', attachments: images.map((image) => attachment(image.bytes, image.mimeType, image.filename)) },
    });
    const { text } = await client.read(admission);
    assert.equal(text, `You said: Look ${images.map((image) => described(image.bytes, image.mimeType)).join(' ')}`);

    const [message] = ofRole(await client.history(), 'user');
    assert.equal(textOf(message), 'Look');
    const files = message.parts.filter((part) => part.type === 'file');
    assert.equal(files.length, 2);
    for (const [i, image] of images.entries()) {
      const { id, ...file } = files[i];
      assert.deepEqual(file, {
        type: 'file', mediaType: image.mimeType, size: image.bytes.length, url: client.attachmentUrl(id),
        ...(image.filename ? { filename: image.filename } : {}),
      });
      const { response, bytes } = await fetchBytes(file.url);
      assert.equal(response.status, 200);
      assert.ok(bytes.equals(image.bytes));
      const headers = Object.fromEntries(response.headers);
      assert.equal(headers['content-type'], image.mimeType);
      assert.equal(headers['content-length'], String(image.bytes.length));
      assert.equal(headers['content-disposition'], 'inline');
      assert.equal(headers['cache-control'], 'private, max-age=31536000, immutable');
      assert.equal(headers['content-security-policy'], 'sandbox');
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['cross-origin-resource-policy'], 'cross-origin');
    }
  });
}

for (const live of ['sse', 'long-poll']) {
  test(`observers receive an image: ${live}`, async () => {
    const client = conversation(served.completions);
    await client.wait(await client.send({ message: { kind: 'user', body: 'Hello' } }));
    await observing(client, { live }, async (watcher) => {
      await watcher.until(({ phase }) => phase === 'live', 'the live phase');
      const bytes = randomBytes(500);
      const admission = await client.send({ message: { kind: 'user', body: '', attachments: [attachment(bytes, 'image/gif')] } });
      await watcher.untilSettled(admission);
      await sameAsHistory(watcher, client);
      const file = ofRole(watcher.conversation, 'user').at(-1).parts.find((part) => part.type === 'file');
      assert.ok((await fetchBytes(file.url)).bytes.equals(bytes));
    });
  });
}

test('the largest image', async () => {
  const client = conversation(served.completions);
  // 14 × 1024 × 1024 characters of base64.
  const bytes = picture((14_680_064 / 4) * 3);
  const admission = await client.send({ message: { kind: 'user', body: 'Large', attachments: [attachment(bytes, 'image/png')] } });
  assert.equal((await client.read(admission)).text, `You said: Large ${described(bytes, 'image/png')}`);
  const file = (await client.history()).messages[0].parts.find((part) => part.type === 'file');
  assert.ok((await fetchBytes(file.url)).bytes.equals(bytes));
});

test('an image belongs to its conversation', async () => {
  const [one, two] = [conversation(served.completions), conversation(served.completions)];
  const send = (client) => client.send({ message: { kind: 'user', body: 'x', attachments: [attachment(randomBytes(10), 'image/png')] } });
  await one.wait(await send(one));
  await two.wait(await send(two));
  const { id } = (await one.history()).messages[0].parts.find((part) => part.type === 'file');
  for (const url of [two.attachmentUrl(id), one.attachmentUrl('att_unknown'), one.attachmentUrl('a/b c')]) {
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 404);
    assert.equal((await response.json()).error.type, 'attachment_not_found');
  }
});
