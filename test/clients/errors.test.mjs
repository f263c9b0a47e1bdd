// Error responses, as the client reports them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createFlueClient } from '@flue/sdk';

import { ask, conversation, say, served, token, unique } from './suite.mjs';

const refused = (status, type) => (error) => {
  assert.equal(error.name, 'FlueApiError', error);
  assert.equal(error.status, status);
  const { type: got, message, details } = error.body.error;
  assert.equal(got, type);
  assert.ok(message && details);
  assert.ok(error.message.includes(type));
  return true;
};

const image = (data, mimeType = 'image/png') => ({ message: { kind: 'user', body: 'x', attachments: [{ type: 'image', data, mimeType }] } });

test('a conversation does not exist before the first message', async () => {
  const client = conversation(served.completions);
  await assert.rejects(client.history(), refused(404, 'stream_not_found'));
  await assert.rejects(client.read('sub_nothing'), (error) => error.status === 404);
  await assert.rejects(client.wait({ streamUrl: client.url, offset: '-1', submissionId: 'sub_nothing', uid: 'inst_x' }), (error) => error.status === 404);
  const response = await fetch(client.attachmentUrl('att_nothing'), { headers: { authorization: `Bearer ${token}` } });
  assert.equal(response.status, 404);
  assert.equal((await response.json()).error.type, 'stream_not_found');
});

for (const [name, send] of Object.entries({
  'invalid base64': image('this is no base64!'),
  'a media type that is not a header value': image('aGk=', 'image/png\r\nX: y'),
  'an image too large': image('A'.repeat(14_680_068)),
  'another kind': { message: { kind: 'robot', body: 'x' } },
  'no body': { message: { kind: 'user' } },
  'a body that is not a text': { message: { kind: 'user', body: { text: 'x' } } },
  'a nested message': { message: { message: { kind: 'user', body: 'x' } } },
  'an invalid tag name': { message: { kind: 'signal', type: 'x', body: 'x', tagName: 'a b' } },
  'a signal without type': { message: { kind: 'signal', type: '', body: 'x' } },
  'a uid that is not a text': { message: { kind: 'user', body: 'x' }, uid: 7 },
  'an empty key': { message: { kind: 'user', body: 'x' }, idempotencyKey: '' },
  'a long key': { message: { kind: 'user', body: 'x' }, idempotencyKey: 'k'.repeat(257) },
})) {
  test(`a rejected send has no effect: ${name}`, async () => {
    const client = conversation(served.completions);
    await assert.rejects(client.send(send), refused(400, 'invalid_request'));
    await assert.rejects(client.history(), refused(404, 'stream_not_found'));
  });
}

test('an unknown offset', async () => {
  const client = conversation(served.completions);
  const admission = await say(client, 'Hello');
  await assert.rejects(client.wait({ ...admission, offset: 'now' }), (error) => error.status === 400);
});

test('an unmounted path', async () => {
  const { origin } = new URL(served.completions);
  const client = createFlueClient({ url: `${origin}/nowhere/at/all`, token });
  await assert.rejects(client.history(), refused(404, 'route_not_found'));
  await assert.rejects(say(client, 'x'), refused(404, 'route_not_found'));
});

test('a blank id', async () => {
  const client = createFlueClient({ url: `${served.completions}/%20`, token });
  await assert.rejects(client.history(), refused(400, 'invalid_request'));
  await assert.rejects(say(client, 'x'), refused(400, 'invalid_request'));
});

test('every route requires the token', async () => {
  const id = unique();
  await ask(conversation(served.completions, { id }), 'Hello');
  for (const wrong of [undefined, 'wrong']) {
    const client = conversation(served.completions, { id, token: wrong });
    const unauthorized = (error) => error.status === 401;
    await assert.rejects(client.history(), unauthorized);
    await assert.rejects(say(client, 'x'), unauthorized);
    await assert.rejects(client.abort(), unauthorized);
    assert.equal((await fetch(client.attachmentUrl('att_x'))).status, 401);
  }
});

test('headers are computed for each request', async () => {
  let calls = 0;
  const headers = async () => ({ authorization: `Bearer ${(calls++, token)}` });
  const client = conversation(served.completions, { token: undefined, headers });
  assert.equal((await ask(client, 'Hello')).text, 'You said: Hello');
  assert.ok(calls >= 3);
});
