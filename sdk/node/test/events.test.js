'use strict';
// The event log of a call's session: what is appended goes with the Result, what is read is asked for.

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Host } = require('../testing/host');

const FUNCTION = `
const { events, state, StateError } = require('nimbus-state');
exports.handle = async (event) => {
  try {
    return await eval('(async () => ' + event + ')()');
  } catch (error) {
    if (error instanceof StateError) return error.code;
    throw error;
  }
};
`;

let host;
before(async () => (host = await Host.load(FUNCTION)));
after(() => host.close());

test('appended events go with the result', async () => {
  const request = host.begin(`[await state.set('a', 1), await events.append({ content: [], id: 'e1' })]`);
  const { head, values } = await host.next('result', request);
  assert.equal(head.events, 1);
  assert.deepEqual(JSON.parse(values[0]), [true, 'e1']);
  assert.deepEqual(JSON.parse(values.at(-1)), { content: [], id: 'e1' });
  const made = await host.next('result', host.begin(`await events.append({ content: 1 })`));
  assert.equal(JSON.parse(made.values[1]).id, JSON.parse(made.values[0]));
});

test('recent events are those of the log and the own', async () => {
  const request = host.begin(`(await events.append({ content: 1, id: 'new' }), (await events.recent(2)).map((e) => e.id))`);
  const { head } = await host.next('state', request);
  assert.deepEqual(head, { id: 1, operation: 'events.recent', count: 1 });
  host.send('state', request, { id: 1, success: true }, ['{"id":"old","content":0}']);
  const { values } = await host.next('result', request);
  assert.deepEqual(JSON.parse(values[0]), ['old', 'new']);
});

test('what makes no sense is refused', async () => {
  for (const wrong of ['events.append(7)', 'events.append({ author: "x" })', 'events.append({ content: 1n })',
    'events.append({ content: 1, id: 3 })', 'events.recent(0)', 'events.recent(1001)']) {
    const { head, values } = await host.next('result', host.begin(wrong));
    assert.equal(JSON.parse(values[0]), 'invalid_argument', wrong);
    assert.equal(head.events, undefined);
  }
  const stateless = host.begin('events.append({ content: 1 })', { state: null });
  assert.equal(JSON.parse((await host.next('result', stateless)).values[0]), 'invalid_argument');
});
