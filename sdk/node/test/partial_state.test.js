'use strict';
// Session scope where not everything came with the call.

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Host, EVALUATE } = require('../testing/host');

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

// Begins a call and plays the store to it. `all` is what there is, `listed` the names that go along, `sent` how
// many values.
// Resolves to the result and the `loads` that were asked for.
async function run(body, all, { listed = Object.keys(all), sent = 0, floor = 0 } = {}) {
  const keys = Object.fromEntries(listed.map((key) => [key, all[key]]));
  const complete = listed.length === Object.keys(all).length;
  const request = host.begin(String(body), { state: { floor, complete, keys }, sent });
  const loads = [];
  const result = host.result(request);
  for (;;) {
    const frame = await Promise.race([result.then(() => null), host.next('state', request)]);
    if (frame === null) break;
    const { id, scope, operation, keys: wanted, ...rest } = frame.head;
    assert.deepEqual([scope, operation, rest], ['session', 'load', {}]);
    loads.push(wanted ?? 'all');
    const found = (wanted ?? Object.keys(all)).filter((key) => key in all);
    const entries = found.map((key) => [key, all[key][1] ?? 1, all[key][2] ?? 0, Buffer.byteLength(all[key][0])]);
    host.send('state', request, { id, success: true, keys: entries }, wanted ? found.map((key) => all[key][0]) : []);
  }
  return { ...(await result), loads };
}

test('a value that did not come along is asked for when it is needed, once', async () => {
  const { body, loads } = await run(
    async (state) => [await state.get('a'), await state.get('b'), await state.get('b')],
    { a: ['1'], b: ['2'] },
    { sent: 1 },
  );
  assert.deepEqual([body, loads], [[1, 2, 2], [['b']]]);
});

test('several values are asked for together', async () => {
  const { body, loads } = await run(
    async (state) => state.get_many(['a', 'b', 'c', 'x']),
    { a: ['1'], b: ['2'], c: ['3'] },
    { sent: 1 },
  );
  assert.deepEqual([body, loads], [{ a: 1, b: 2, c: 3 }, [['b', 'c']]]);
});

test('what needs no value asks for none', async () => {
  const touch = async (state) => {
    await state.set('a', 1);
    await state.delete('b');
    await state.expire('c', 60);
    await state.set_with_version('d', 'x', 4);
    return [await state.exists('c'), await state.keys(), (await state.ttl('d')) > 0];
  };
  const { body, loads, writes, touches, deletes } = await run(touch, {
    a: ['0'],
    b: ['0', 3],
    c: ['0', 2],
    d: ['0', 4],
  });
  assert.deepEqual([body, loads], [[true, ['a', 'c', 'd'], true], []]);
  assert.deepEqual([writes.a[1], writes.d[1], touches.c[0], deletes], [2, 5, 3, { b: 3 }]);
});

test('incr loads the value and keeps version and expiry right', async () => {
  const { body, loads, writes } = await run(async (state) => state.incr('a', 2), { a: ['40', 9, 5000000] });
  assert.deepEqual([body, loads, writes], [42, [['a']], { a: ['42', 10, 5000000] }]);
});

test('a key that is not in an incomplete list is asked for, and that it is missing is remembered', async () => {
  const all = { a: ['1'], b: ['2', 5] };
  const look = async (state) => [
    await state.get('b'),
    await state.get_with_version('b'),
    await state.get('x', 0),
    await state.exists('x'),
  ];
  const { body, loads } = await run(look, all, { listed: ['a'], sent: 1 });
  assert.deepEqual(
    [body, loads],
    [
      [2, { value: 2, version: 5 }, 0, false],
      [['b'], ['x']],
    ],
  );
});

test('a write asks for the whole list first: versions and limits need it', async () => {
  const all = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, ['1', 7]]));
  const write = async (state) => [
    await state.set('k99', 2),
    await state.set('new', 1).catch((error) => error.code),
    await state.keys('k[0-2]'),
  ];
  const { body, loads, writes } = await run(write, all, { listed: ['k0'] });
  assert.deepEqual([body, loads], [[true, 'quota_exceeded', ['k0', 'k1', 'k2']], ['all']]);
  assert.deepEqual([Object.keys(writes), writes.k99[1]], [['k99'], 8]);
});

test('clear removes what was not in the list too', async () => {
  const { body, deletes } = await run(async (state) => state.clear(), { a: ['1', 1], b: ['2', 5] }, { listed: ['a'] });
  assert.deepEqual([body, deletes], [2, { a: 1, b: 5 }]);
});

test('operations take effect in the order they were called in, though an earlier one has to wait', async () => {
  const race = async (state) => {
    const first = state.incr('a');
    state.set('a', 'after');
    const last = state.get('a');
    return [await first, await last];
  };
  const { body, writes } = await run(race, { a: ['41', 3] });
  assert.deepEqual(
    [body, writes.a.slice(0, 2)],
    [
      [42, 'after'],
      ['"after"', 5],
    ],
  );
});

test('the result waits for operations that nobody awaited', async () => {
  const forget = (state) => {
    state.incr('a');
    state.incr('b');
    return 'returned';
  };
  const { body, writes, loads } = await run(forget, { a: ['1'], b: ['2'] });
  assert.deepEqual([body, writes.a[0], writes.b[0], loads], ['returned', '2', '3', [['a'], ['b']]]);
});

test('a value overwritten before it was loaded is not loaded', async () => {
  const { body, loads } = await run(
    async (state) => [await state.set('a', 5), await state.get('a'), await state.incr('a')],
    { a: ['1'] },
  );
  assert.deepEqual([body, loads], [[true, 5, 6], []]);
});

test('a key that has gone when its value is asked for has expired', async () => {
  const look = `async (state) => [await state.get('a', 'gone'), await state.exists('a'), await state.set_with_version('a', 1, 0)]`;
  const request = host.begin(look, { state: { keys: { a: ['1', 7, 5000000] } }, sent: 0 });
  const { head } = await host.next('state', request);
  host.send('state', request, { id: head.id, success: true, keys: [] });
  assert.deepEqual((await host.result(request)).body, ['gone', false, 8]);
});

test('a load that fails is an error of the operation', async () => {
  const request = host.begin(`(state) => state.get('a').catch((error) => [error.code, error.message])`, {
    state: { complete: false },
  });
  const { head } = await host.next('state', request);
  host.send('state', request, { id: head.id, success: false, error: 'unavailable', message: 'the store is away' });
  assert.deepEqual((await host.result(request)).body, ['unavailable', 'the store is away']);
});
