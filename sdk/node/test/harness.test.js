'use strict';
// What the harness for authors has beyond state, which tests/state_cases is about.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { state, StateError } = require('../nimbus-state');
const { testFunction, testSession } = require('../nimbus-state/testing');

test('the global state is that of the call, also of calls that overlap', async () => {
  const fn = testFunction(async (event) => {
    for (let i = 0; i < event; i++) await state.incr('n');
    return state.get('n');
  });
  assert.deepEqual(await Promise.all([fn.session('a').invoke(3), fn.session('b').invoke(5)]), [3, 5]);
  await assert.rejects(state.get('n'), (error) => error instanceof StateError && error.code === 'unavailable');
});

test('what the handler throws is thrown, plain handlers too', async () => {
  const error = new RangeError('no');
  const session = testSession(() => {
    throw error;
  });
  await assert.rejects(session.invoke(), (thrown) => thrown === error);
  const answer = await session.call();
  assert.equal(answer.status_code, 500);
  assert.equal(answer.status, 'failed');
  assert.equal(answer.error.type, 'RangeError');
  assert.equal(answer.session_seq, 2);
});

test('an answer that is no JSON is an error and rolls back', async () => {
  const session = testSession(async (event, state) => {
    await state.set('a', 1);
    return () => {};
  });
  await assert.rejects(session.invoke(), TypeError);
  assert.deepEqual(session.state, {});
});

test('operations that nobody awaits count', async () => {
  const session = testSession((event, state) => void state.set('a', 1));
  await session.invoke();
  assert.deepEqual(session.state, { a: 1 });
});

test('state ends with its call', async () => {
  let kept;
  await testSession((event, state) => void (kept = state)).invoke();
  await assert.rejects(kept.get('a'), /ended/);
});

test('deliver tries again with longer waits', async () => {
  const times = [];
  const fn = testFunction(
    (event, state, { attempt, session_seq, request_id }) => {
      times.push([attempt, session_seq, request_id, fn.clock.now_ms]);
      throw new Error('no');
    },
    { retry: { max_attempts: 4, initial_ms: 100, factor: 3, max_ms: 500 } },
  );
  const begin = fn.clock.now_ms;
  const answer = await fn.session('a').deliver();
  assert.equal(answer.attempts, 4);
  assert.deepEqual(
    times.map(([attempt, seq, id, time]) => [attempt, seq, id, time - begin]),
    [[1, 1, 'request-1', 0], [2, 1, 'request-1', 100], [3, 1, 'request-1', 400], [4, 1, 'request-1', 900]],
  );
});

test('settings that do not exist are refused', () => {
  assert.throws(() => testFunction(() => {}, { state_config: { max_key: 1 } }), /max_key.*max_keys/);
  assert.throws(() => testFunction(() => {}, { timeout: 1 }), /timeout/);
  assert.throws(() => testFunction('handle'), TypeError);
});

test('the module form has the same', async () => {
  const module = await import('../nimbus-state/testing.mjs');
  assert.equal(module.testSession, testSession);
  assert.equal(module.testFunction, testFunction);
});
