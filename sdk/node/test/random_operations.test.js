'use strict';
// Random operations in random sessions, whole and partial ones, against the model.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const { Host, LIMITS } = require('../testing/host');
const { Model } = require('../testing/model');

const SEED = Number(process.env.NIMBUS_TEST_SEED ?? Date.now() % 2 ** 32);
const CALLS = Number(process.env.NIMBUS_TEST_CALLS ?? 400);
const NOW = 1789999970000;
const NAMES = ['a', 'b', 'ab', 'é', '😀', '__proto__x', '\uffee', 'k1', 'k2', 'k3'];
const limits = { ...LIMITS, max_value_bytes: 12, max_keys: 6, max_total_bytes: 40 };

// mulberry32
function generator(seed) {
  let a = seed >>> 0;
  const next = () => {
    a = (a + 0x6d2b79f5) | 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (n) => Math.floor(next() * n), pick: (list) => list[Math.floor(next() * list.length)] };
}

const RUN = `exports.handle = async (operations, state) => {
  const results = [];
  for (const [operation, args, awaited] of operations) {
    const result = state[operation](...args.map((arg) => (arg === '(absent)' ? undefined : arg)))
      .then((value) => ({ value }), ({ code, current_version }) => ({ code, current_version }));
    results.push(awaited ? await result : result);
  }
  return Promise.all(results);
};`;

function randomOperation({ below, pick }, versions) {
  const key = pick(NAMES);
  const value = () => pick([0, 1, -5, 41, 'x', 'é😀', null, [1], { a: 1 }, 'too long a text', 1234567]);
  const ttl = () => pick([0, 0, -1, 60, 1000]);
  const operations = [
    ['get', [key, 'none']],
    ['get_with_version', [key]],
    ['set', [key, value(), ttl()]],
    ['set', [key, value(), ttl()]],
    ['set_with_version', [key, value(), pick([0, 1, 2, 3, pick(versions), '(absent)']), ttl()]],
    ['delete', [key]],
    ['incr', [key, below(9) - 4]],
    ['decr', [key, below(9) - 4]],
    ['exists', [key]],
    ['keys', [pick(['*', 'k*', 'é*'])]],
    ['expire', [key, 50]],
    ['persist', [key]],
    ['get_many', [[...new Set([key, pick(NAMES)])]]],
    [
      'set_many',
      [
        Object.fromEntries([
          [key, value()],
          [pick(NAMES), value()],
        ]),
        ttl(),
      ],
    ],
    ['clear', []],
  ];
  return [...pick(operations), below(3) > 0];
}

function randomSession({ below, pick }) {
  const keys = {};
  for (let i = below(8); i > 0; i--) {
    const expires = pick([0, 0, NOW + 500000, NOW + 900000, NOW - 1]);
    keys[pick(NAMES)] = { value: pick([0, 7, 'text', [1, 2], null]), version: 1 + below(9), expires };
  }
  return { keys, floor: below(12) };
}

// Answers what the call asks for, until its result is there.
async function finish(host, request, keys) {
  const result = host.result(request);
  for (;;) {
    const frame = await Promise.race([result.then(() => null), host.next('state', request)]);
    if (frame === null) return result;
    const { id, operation, keys: wanted } = frame.head;
    assert.equal(operation, 'load');
    const found = (wanted ?? Object.keys(keys)).filter(
      (key) => key in keys && !(keys[key].expires > 0 && keys[key].expires <= NOW),
    );
    const texts = found.map((key) => JSON.stringify(keys[key].value));
    const entries = found.map((key, i) => [key, keys[key].version, keys[key].expires, Buffer.byteLength(texts[i])]);
    host.send('state', request, { id, success: true, keys: entries }, wanted ? texts : []);
  }
}

// Time goes on in the call and stands still in the model.
function withoutClock(list) {
  for (const entry of Object.values(list)) {
    const at = entry.length - 1;
    if (entry[at] !== 0) entry[at] = Math.floor((entry[at] - NOW) / 40000);
  }
  return list;
}

test(`random operations do what the model does (NIMBUS_TEST_SEED=${SEED})`, { timeout: 120000 }, async () => {
  console.log(`seed ${SEED}`);
  const random = generator(SEED);
  const host = await Host.load(RUN, { state: limits });
  try {
    for (let call = 0; call < CALLS; call++) {
      const { keys, floor } = randomSession(random);
      const names = Object.keys(keys);
      // A partial session comes without what has expired: an instance that does not know of a key cannot raise
      // the floor for it.
      const partial = names.every((key) => keys[key].expires !== NOW - 1) && random.below(2) === 0;
      const listed = partial ? names.slice(0, random.below(names.length + 1)) : names;
      const versions = [...Object.values(keys).map(({ version }) => version), floor + 1];
      const operations = Array.from({ length: 1 + random.below(12) }, () => randomOperation(random, versions));
      const request = host.begin(operations, {
        now: NOW,
        sent: partial ? random.below(3) : Infinity,
        state: {
          floor,
          complete: listed.length === names.length,
          keys: Object.fromEntries(
            listed.map((key) => [key, [JSON.stringify(keys[key].value), keys[key].version, keys[key].expires]]),
          ),
        },
      });
      const { status, body, error, ...changes } = await finish(host, request, keys);
      const model = new Model(limits, NOW, floor, keys);
      const expected = operations.map(([operation, args]) =>
        model.perform(
          operation,
          args.map((arg) => (arg === '(absent)' ? undefined : arg)),
        ),
      );
      const where = `call ${call} of seed ${SEED}: ${JSON.stringify({ floor, keys, listed, operations })}`;
      assert.deepEqual(body, JSON.parse(JSON.stringify(expected)), where);
      const actual = {
        writes: withoutClock(changes.writes),
        touches: withoutClock(changes.touches),
        deletes: changes.deletes,
      };
      const modelled = model.changes();
      assert.deepEqual(
        actual,
        { ...modelled, writes: withoutClock(modelled.writes), touches: withoutClock(modelled.touches) },
        where,
      );
    }
  } finally {
    await host.close();
  }
});
