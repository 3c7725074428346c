// Runs without a server: node --test examples/functions/rate-limited/tests/, where nimbus-state lies in a node_modules above.
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { testFunction } = require('nimbus-state/testing');
const { handle } = require('../main.js');

async function callOften(session, times) {
  const statuses = [];
  for (let i = 0; i < times; i++) statuses.push((await session.call({ name: 'Ann' })).status_code);
  return statuses;
}

test('the sixth call in a minute is refused, and told when to come back', async () => {
  const ann = testFunction(handle).session('ann');
  assert.deepEqual(await callOften(ann, 6), [200, 200, 200, 200, 200, 429]);
  ann.advance(20);
  assert.deepEqual((await ann.call()).body, { error: 'too many calls', retry_after_s: 40 });
});

test('a minute after the first call there are new ones', async () => {
  const ann = testFunction(handle).session('ann');
  await callOften(ann, 1);
  ann.advance(59);
  assert.equal((await ann.invoke()).remaining, 3);
  ann.advance(1);
  assert.equal((await ann.invoke()).remaining, 4);
});

test('callers do not count for each other', async () => {
  const fn = testFunction(handle);
  await callOften(fn.session('ann'), 6);
  assert.deepEqual(await callOften(fn.session('ben'), 1), [200]);
});
