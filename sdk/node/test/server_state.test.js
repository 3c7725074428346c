'use strict';
// State that the server keeps: function scope, and session scope in a stateless call.

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Host, EVALUATE } = require('../testing/host');

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

// One operation: what was asked, and what the function got for `reply` (with `values`).
async function ask(operation, reply, values = [], options = { state: {} }) {
  const request = host.begin(`async (state) => state.function().${operation}`, options);
  const {
    head: { id, ...asked },
    values: sent,
  } = await host.next('state', request);
  host.send('state', request, { id, success: true, ...reply }, values);
  const result = await host.result(request);
  return { asked, sent, got: result.body, result };
}

test('each operation is one frame, and its reply the value of the promise', async () => {
  const scope = 'function';
  const cases = [
    ['get("a")', { version: 4 }, ['{"x":1}'], { operation: 'get', key: 'a' }, [], { x: 1 }],
    ['get("a", 5)', { version: 0 }, [], { operation: 'get', key: 'a' }, [], 5],
    [
      'get_with_version("a")',
      { version: 4 },
      ['7'],
      { operation: 'get_with_version', key: 'a' },
      [],
      { value: 7, version: 4 },
    ],
    [
      'get_with_version("a")',
      { version: 0 },
      [],
      { operation: 'get_with_version', key: 'a' },
      [],
      { value: null, version: 0 },
    ],
    ['set("a", "é")', { version: 1 }, [], { operation: 'set', key: 'a' }, ['"é"'], true],
    ['set("a", [1], 1.5)', { version: 1 }, [], { operation: 'set', key: 'a', ttl: 1.5 }, ['[1]'], true],
    ['set("a", 1, -1)', { version: 1 }, [], { operation: 'set', key: 'a', ttl: -1 }, ['1'], true],
    ['set_with_version("a", 1)', { version: 9 }, [], { operation: 'set_with_version', key: 'a' }, ['1'], 9],
    [
      'set_with_version("a", 1, 0, 60)',
      { version: 9 },
      [],
      { operation: 'set_with_version', key: 'a', ttl: 60, version: 0 },
      ['1'],
      9,
    ],
    ['delete("a")', { value: true }, [], { operation: 'delete', key: 'a' }, [], true],
    ['incr("a")', { value: 3, version: 2 }, [], { operation: 'incr', key: 'a', delta: 1 }, [], 3],
    ['decr("a", 4)', { value: -1, version: 2 }, [], { operation: 'decr', key: 'a', delta: 4 }, [], -1],
    ['exists("a")', { value: false }, [], { operation: 'exists', key: 'a' }, [], false],
    ['keys()', { value: ['a', 'b'] }, [], { operation: 'keys', pattern: '*' }, [], ['a', 'b']],
    ['keys("a*")', { value: [] }, [], { operation: 'keys', pattern: 'a*' }, [], []],
    ['expire("a", 5)', { version: 3 }, [], { operation: 'expire', key: 'a', ttl: 5 }, [], true],
    ['ttl("a")', { value: -1 }, [], { operation: 'ttl', key: 'a' }, [], -1],
    ['persist("a")', { version: 3 }, [], { operation: 'persist', key: 'a' }, [], true],
    ['clear()', { value: 4 }, [], { operation: 'clear' }, [], 4],
    [
      'get_many(["a", "__proto__"])',
      { keys: ['a', '__proto__'] },
      ['1', '2'],
      { operation: 'get_many', keys: ['a', '__proto__'] },
      [],
      JSON.parse('{"a":1,"__proto__":2}'),
    ],
    [
      'set_many({ a: 1, "b\\"": "x" }, 9)',
      { versions: [1, 2] },
      [],
      { operation: 'set_many', keys: ['a', 'b"'], ttl: 9 },
      ['1', '"x"'],
      true,
    ],
  ];
  for (const [operation, reply, values, expected, values_sent, value] of cases) {
    const { asked, sent, got } = await ask(operation, reply, values);
    assert.deepEqual(asked, { scope, ...expected }, operation);
    assert.deepEqual(sent, values_sent, operation);
    assert.deepEqual(got, value, operation);
  }
});

test('integers beyond what a Number holds pass exactly, both ways', async () => {
  const request = host.begin(`async (state) => String(await state.function().incr('a', 2n ** 62n + 1n))`);
  const { text, head } = await host.next('state', request);
  assert.match(text, /"delta":4611686018427387905[,}]/);
  host.send('state', request, `{"id":${head.id},"success":true,"value":9223372036854775807,"version":2}`);
  assert.equal((await host.result(request)).body, '9223372036854775807');
});

test('an error of the server is an error of the operation', async () => {
  const request = host.begin(`(state) => state.function().set_with_version('a', 1, 3).catch((error) =>
    [error.name, error.code, error.message, error.current_version, error instanceof Error])`);
  const { head } = await host.next('state', request);
  host.send('state', request, {
    id: head.id,
    success: false,
    error: 'version_conflict',
    message: 'it has 7',
    current_version: 7,
  });
  assert.deepEqual((await host.result(request)).body, ['StateError', 'version_conflict', 'it has 7', 7, true]);
});

test('an error without a current version has none', async () => {
  const request = host.begin(`(state) => state.function().get('a').catch((error) => Object.keys(error))`);
  const { head } = await host.next('state', request);
  host.send('state', request, { id: head.id, success: false, error: 'unavailable', message: 'away' });
  assert.deepEqual((await host.result(request)).body, ['code']);
});

test('several operations are under way at once, and replies may come in any order', async () => {
  const request = host.begin(`async (state) => Promise.all([1, 2, 3].map((i) => state.function().get('k' + i)))`);
  const asked = [];
  for (let i = 0; i < 3; i++) asked.push((await host.next('state', request)).head);
  assert.equal(new Set(asked.map(({ id }) => id)).size, 3);
  for (const { id, key } of asked.reverse())
    host.send('state', request, { id, success: true, version: 1 }, [JSON.stringify(key)]);
  assert.deepEqual((await host.result(request)).body, ['k1', 'k2', 'k3']);
});

test('the result waits for operations that nobody awaited', async () => {
  const request = host.begin(`(state) => { state.function().set('a', 1); state.set('b', 2); return 'returned'; }`);
  const { head } = await host.next('state', request);
  const probe = await host.call('() => 1');
  assert.equal(probe.body, 1);
  assert.ok(!host.unclaimed.some((frame) => frame.type === 'result' && frame.request === request));
  host.send('state', request, { id: head.id, success: true, version: 1 });
  const { body, writes } = await host.result(request);
  assert.deepEqual([body, Object.keys(writes)], ['returned', ['b']]);
});

test('an operation that nobody awaited and that is refused fails the call', async () => {
  const request = host.begin(`(state) => { state.function().set('a', 1); return 'returned'; }`);
  const { head } = await host.next('state', request);
  host.send('state', request, { id: head.id, success: false, error: 'quota_exceeded', message: 'full' });
  const { error } = await host.result(request);
  assert.deepEqual([error.type, error.message], ['StateError', 'full']);
});

test('invalid arguments are refused before anything is sent', async () => {
  const { body } = await host.run(async (state) => {
    const remote = state.function();
    const attempts = [
      remote.get(''),
      remote.set('a', undefined),
      remote.set('a', 1, -2),
      remote.incr('a', 0.5),
      remote.expire('a', 0),
      remote.keys(1),
    ];
    return (await Promise.allSettled(attempts)).map(({ reason }) => reason.code);
  });
  assert.deepEqual(body, Array(6).fill('invalid_argument'));
});

test('nothing to do is nothing to send', async () => {
  const { body } = await host.run(async (state) => [
    await state.function().get_many([]),
    await state.function().set_many({}),
  ]);
  assert.deepEqual(body, [{}, true]);
});

test("session scope of a stateless call is the server's, invocation scope is not", async () => {
  const request = host.begin(
    `async (state, context) => {
      await state.invocation().set('a', 1);
      return [context.session_key, context.session_seq, await state.incr('a'), await state.invocation().get('a')];
    }`,
    { state: null },
  );
  const {
    head: { id, ...asked },
  } = await host.next('state', request);
  assert.deepEqual(asked, { scope: 'session', operation: 'incr', key: 'a', delta: 1 });
  host.send('state', request, { id, success: true, value: 8, version: 3 });
  const result = await host.result(request);
  assert.deepEqual(result, { writes: {}, touches: {}, deletes: {}, status: 200, body: [null, null, 8, 1] });
});

test('replies that nobody waits for are ignored', async () => {
  host.send('state', 999999, { id: 1, success: true });
  const request = host.begin('() => 1');
  host.send('state', request, { id: 77, success: true });
  assert.equal((await host.result(request)).body, 1);
});

test('a value too large for a frame is refused', async () => {
  const { body } = await host.run(async (state) =>
    state
      .function()
      .set('a', 'x'.repeat(65 * 1024 * 1024))
      .catch((error) => error.code),
  );
  assert.equal(body, 'too_large');
});
