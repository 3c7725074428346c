'use strict';
// What a Result says of the operations on state that the instance carried out itself.

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Host, EVALUATE } = require('../testing/host');

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

async function operations(body, options) {
  const { head } = await host.next('result', host.begin(String(body), options));
  return head.operations;
}

test('a call that does nothing says nothing', async () => {
  assert.equal(await operations(() => 1), undefined);
});

test('each operation is counted under its name', async () => {
  const counts = await operations(async (state) => {
    await state.get('a');
    await state.getWithVersion('a');
    for (let i = 0; i < 3; i++) await state.set('a', i);
    await state.set_many({ b: 1 });
  });
  assert.deepEqual(counts, { get: 1, get_with_version: 1, set: 3, set_many: 1 });
});

test('one that is not awaited counts too', async () => {
  assert.deepEqual(await operations((state) => void state.incr('n')), { incr: 1 });
});

test('those that fail are counted by their code', async () => {
  const counts = await operations(async (state) => {
    await state.set('a', 'x'.repeat(100000)).catch(() => 0);
    await state.get('').catch(() => 0);
    await state.get('a');
    await state.expire('missing', 5).catch(() => 0);
    await state.get_many(7).catch(() => 0);
  });
  const expected = { get: 1, 'set:too_large': 1, 'get:invalid_argument': 1 };
  assert.deepEqual(counts, { ...expected, 'expire:not_found': 1, 'get_many:invalid_argument': 1 });
});

test('a call that fails says what it did', async () => {
  const counts = await operations(async (state) => {
    await state.set('a', 1);
    throw new Error('no');
  });
  assert.deepEqual(counts, { set: 1 });
});

test('another scope stands before the name', async () => {
  assert.deepEqual(await operations((state) => state.invocation().set('a', 1)), { 'invocation/set': 1 });
});

test('what is asked of the server is counted there, but for what is never asked', async () => {
  const body = async (state) => {
    await state.function().incr('n');
    await state.function().incr('').catch(() => 0);
    await state.function().set('n', 1).catch(() => 0);
  };
  const request = host.begin(String(body));
  for (const reply of [{ value: 1 }, { success: false, error: 'quota_exceeded' }]) {
    const { head } = await host.next('state', request);
    host.send('state', request, { id: head.id, success: true, ...reply });
  }
  const { head } = await host.next('result', request);
  assert.deepEqual(head.operations, { 'function/incr:invalid_argument': 1 });
});

test('one that had to load is counted when it is done', async () => {
  const body = async (state) => {
    await state.incr('a');
    await state.incr('b').catch(() => 0);
  };
  const keys = { a: ['1'], b: ['"text"'] };
  const request = host.begin(String(body), { state: { complete: true, keys }, sent: 0 });
  for (const [key, value] of [['a', '1'], ['b', '"text"']]) {
    const { head } = await host.next('state', request);
    assert.deepEqual(head.keys, [key]);
    host.send('state', request, { id: head.id, success: true, keys: [[key, 1, 0, value.length]] }, [value]);
  }
  const { head } = await host.next('result', request);
  assert.deepEqual(head.operations, { incr: 1, 'incr:invalid_argument': 1 });
});

test('a function without state is told so, and that is counted', async () => {
  const disabled = await Host.load(EVALUATE, { state: { enabled: false } });
  const { head } = await disabled.next('result', disabled.begin('(state) => state.get("a").catch(() => 0)'));
  assert.deepEqual(head.operations, { 'get:forbidden': 1 });
  await disabled.close();
});
