'use strict';
// Session scope, on what came with the call.

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');
const { Host, EVALUATE } = require('../testing/host');

const NOW = 1789999970000;
const HOUR = 3600000;
const nothing = { writes: {}, touches: {}, deletes: {} };
const ok = (body, changes) => ({ ...nothing, ...changes, status: 200, body });

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

// `keys` as Host.begin takes them.
const run = (body, keys = {}, { floor = 0, ...options } = {}) =>
  host.run(body, { state: { floor, keys }, now: NOW, ...options });

// Time goes on while a call runs.
function assertSoonAfter(actual, expected) {
  assert.ok(actual >= expected && actual < expected + 60000, `${actual} is not soon after ${expected}`);
}

describe('get', () => {
  test('gives the value that came along, of whatever kind', async () => {
    const values = ['0', '-7', '1.5e3', 'true', 'null', '"é\\n"', '[]', '{"a":[1,{"b":"ü😀"}]}'];
    const keys = Object.fromEntries(values.map((value, i) => [`k${i}`, [value]]));
    const { body } = await run(
      async (state) => Promise.all([0, 1, 2, 3, 4, 5, 6, 7].map((i) => state.get(`k${i}`))),
      keys,
    );
    assert.deepEqual(
      body,
      values.map((value) => JSON.parse(value)),
    );
  });

  test('gives the default for a key that is not there, null if none is given', async () => {
    const { body } = await run(async (state) => [
      await state.get('a'),
      await state.get('a', 5),
      await state.get('a', undefined),
    ]);
    assert.deepEqual(body, [null, 5, null]);
  });

  test('tells a stored null from a missing key', async () => {
    const { body } = await run(async (state) => [await state.get('a', 5), await state.exists('a')], { a: ['null'] });
    assert.deepEqual(body, [null, true]);
  });

  test('gives a copy: what is done to it does not reach the state', async () => {
    const result = await run(
      async (state) => {
        (await state.get('list')).push(9);
        const kept = { n: 1 };
        await state.set('kept', kept);
        kept.n = 2;
        (await state.get('kept')).n = 3;
        return [await state.get('list'), await state.get('kept')];
      },
      { list: ['[1]'] },
    );
    assert.deepEqual(result.body, [[1], { n: 1 }]);
    assert.equal(result.writes.kept[0], '{"n":1}');
    assert.deepEqual(Object.keys(result.writes), ['kept']);
  });

  test('writes nothing', async () => {
    const read = async (state) => {
      await Promise.all([state.get('a'), state.get('b'), state.get_with_version('a'), state.exists('a'), state.keys()]);
      await Promise.all([state.get_many(['a', 'b']), state.ttl('a')]);
    };
    assert.deepEqual(await run(read, { a: ['1', 4, NOW + HOUR] }), ok(null));
  });
});

describe('get_with_version', () => {
  test('gives value and version, and version 0 for a key that is not there', async () => {
    const { body } = await run(async (state) => [await state.get_with_version('a'), await state.getWithVersion('b')], {
      a: ['[1]', 12],
    });
    assert.deepEqual(body, [
      { value: [1], version: 12 },
      { value: null, version: 0 },
    ]);
  });
});

describe('set', () => {
  test('gives a key that is there the version after its last, a new one floor + 1', async () => {
    const result = await run(
      async (state) => [await state.set('old', 'x'), await state.set('new', 'y')],
      { old: ['1', 12] },
      { floor: 4 },
    );
    assert.deepEqual(result.body, [true, true]);
    assert.deepEqual(
      [result.writes.old.slice(0, 2), result.writes.new.slice(0, 2)],
      [
        ['"x"', 13],
        ['"y"', 5],
      ],
    );
  });

  test('counts each write, and sends what is last', async () => {
    const { writes } = await run(async (state) => {
      for (const value of [1, 2, 3]) await state.set('a', value);
    });
    assert.deepEqual(writes.a.slice(0, 2), ['3', 3]);
  });

  test('is seen at once, also if nobody awaits it', async () => {
    const result = await run(async (state) => {
      state.set('a', 1);
      return (await state.get('a')) === 1 && state.exists('a');
    });
    assert.equal(result.body, true);
    assert.equal(result.writes.a[0], '1');
  });

  test('takes the default ttl for 0, none for -1, seconds and fractions of them otherwise', async () => {
    const { writes } = await run((state) => {
      state.set('default', 1);
      state.set('zero', 1, 0);
      state.set('never', 1, -1);
      state.set('minute', 1, 60);
      state.set('half', 1, 0.5);
    });
    assertSoonAfter(writes.default[2], NOW + HOUR);
    assertSoonAfter(writes.zero[2], NOW + HOUR);
    assert.equal(writes.never[2], 0);
    assertSoonAfter(writes.minute[2], NOW + 60000);
    assertSoonAfter(writes.half[2], NOW + 500);
  });

  test('replaces the expiry of a key that is there', async () => {
    const { writes } = await run((state) => void state.set('a', 2, -1), { a: ['1', 1, NOW + HOUR] });
    assert.deepEqual(writes.a, ['2', 2, 0]);
  });

  test('keeps the spelling of its own serializer, unicode included', async () => {
    const { writes } = await run((state) => void state.set('schlüssel 😀', { ä: '漢字😀', n: 1e21 }));
    assert.deepEqual(writes['schlüssel 😀'].slice(0, 2), ['{"ä":"漢字😀","n":1e+21}', 1]);
  });
});

describe('set_with_version', () => {
  const conflict = (state) => async (key, value, version) => {
    try {
      return await state.set_with_version(key, value, version);
    } catch (error) {
      return [error.code, error.current_version];
    }
  };

  test('writes if the version is the one expected and gives the new one', async () => {
    const result = await run(async (state) => state.set_with_version('a', 'x', 7), { a: ['1', 7] });
    assert.equal(result.body, 8);
    assert.deepEqual(result.writes.a.slice(0, 2), ['"x"', 8]);
  });

  test('refuses any other version, says the current one and changes nothing', async () => {
    const body = `(state) => (${conflict})(state)('a', 'x', 6)`;
    assert.deepEqual(await run(body, { a: ['1', 7] }), ok(['version_conflict', 7]));
  });

  test('with 0 creates only', async () => {
    const body = `async (state) => { const set = (${conflict})(state); return [await set('a', 1, 0), await set('b', 1, 0), await set('b', 2, 0)]; }`;
    const result = await run(body, { a: ['1', 7] }, { floor: 2 });
    assert.deepEqual(result.body, [['version_conflict', 7], 3, ['version_conflict', 3]]);
    assert.deepEqual(Object.keys(result.writes), ['b']);
  });

  test('refuses a version of a key that is not there', async () => {
    assert.deepEqual((await run(`(state) => (${conflict})(state)('a', 'x', 3)`)).body, ['version_conflict', 0]);
  });

  test('without a version writes anyway, and knows ttl and alias', async () => {
    const result = await run(
      async (state) => [await state.set_with_version('a', 1), await state.setWithVersion('b', 1, undefined, -1)],
      { a: ['1', 7] },
    );
    assert.deepEqual(result.body, [8, 1]);
    assert.equal(result.writes.b[2], 0);
  });

  test('refuses versions that are none', async () => {
    for (const version of ['null', '-1', '1.5', '"1"', 'NaN']) {
      const { error } = await run(`(state) => state.set_with_version('a', 1, ${version})`);
      assert.match(error.message, /^a version is/);
    }
  });
});

describe('delete', () => {
  test('tells whether there was a key, and says the version it had', async () => {
    const result = await run(
      async (state) => [await state.delete('a'), await state.delete('a'), await state.get('a')],
      { a: ['1', 7] },
    );
    assert.deepEqual(result, ok([true, false, null], { deletes: { a: 7 } }));
  });

  test('reports keys that were there at no time outside the call', async () => {
    const result = await run(async (state) => {
      await state.set('a', 1);
      await state.set('a', 2);
      await state.delete('a');
    });
    assert.deepEqual(result.deletes, { a: 2 });
    assert.deepEqual(result.writes, {});
  });

  test('lets no version come twice', async () => {
    const written = (body, keys, options) => run(body, keys, options).then(({ writes }) => writes.a[1]);
    const again = async (state) => {
      await state.delete('a');
      await state.set('a', 1);
    };
    assert.equal(await written(again, { a: ['1', 7] }, { floor: 2 }), 8);
    assert.equal(await written(again, { a: ['1', 7] }, { floor: 20 }), 21);
  });

  test('raises the floor for other keys too', async () => {
    const { writes, deletes } = await run(
      async (state) => {
        await state.delete('a');
        await state.set('b', 1);
      },
      { a: ['1', 7] },
      { floor: 2 },
    );
    assert.deepEqual([deletes, writes.b[1]], [{ a: 7 }, 8]);
  });

  test('of a key written since it was deleted counts again', async () => {
    const { deletes, writes } = await run(
      async (state) => {
        await state.delete('a');
        await state.set('a', 1);
        await state.delete('a');
      },
      { a: ['1', 7] },
    );
    assert.deepEqual([deletes, writes], [{ a: 8 }, {}]);
  });
});

describe('clear', () => {
  test('removes everything and says how much there was', async () => {
    const result = await run(
      async (state) => {
        await state.set('c', 1);
        return [await state.clear(), await state.keys(), await state.clear()];
      },
      { a: ['1', 7], b: ['2', 3] },
    );
    assert.deepEqual(result, ok([3, [], 0], { deletes: { c: 1, a: 7, b: 3 } }));
  });
});

describe('incr and decr', () => {
  test('add to what is there and create what is not', async () => {
    const result = await run(
      async (state) => [
        await state.incr('a'),
        await state.incr('a', 10),
        await state.decr('a'),
        await state.decr('a', 5),
        await state.incr('b', -3),
      ],
      { a: ['41', 7] },
    );
    assert.deepEqual(result.body, [42, 52, 51, 46, -3]);
    assert.deepEqual(
      [result.writes.a.slice(0, 2), result.writes.b.slice(0, 2)],
      [
        ['46', 11],
        ['-3', 1],
      ],
    );
  });

  test('keep the expiry of a key that is there and give a new one the default', async () => {
    const { writes } = await run(
      (state) => {
        state.incr('soon');
        state.decr('never');
        state.incr('new');
      },
      { soon: ['1', 1, NOW + 99999], never: ['1', 1, 0] },
    );
    assert.equal(writes.soon[2], NOW + 99999);
    assert.equal(writes.never[2], 0);
    assertSoonAfter(writes.new[2], NOW + HOUR);
  });

  test('are exact over 64 bits: Numbers where they are safe, BigInts beyond', async () => {
    const result = await run(
      async (state) =>
        [
          await state.incr('a'),
          await state.decr('a'),
          await state.incr('b', 2n),
          await state.decr('c', 2n ** 60n),
          await state.incr('d', 2 ** 60),
        ].map((n) => `${typeof n} ${n}`),
      { a: ['9007199254740991'], b: ['9223372036854775805'], c: ['-9007199254740993'] },
    );
    assert.deepEqual(result.body, [
      'bigint 9007199254740992',
      'number 9007199254740991',
      'bigint 9223372036854775807',
      'bigint -1161928703861587969',
      'bigint 1152921504606846976',
    ]);
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map((key) => result.writes[key][0]),
      ['9007199254740991', '9223372036854775807', '-1161928703861587969', '1152921504606846976'],
    );
  });

  test('refuse what would need more than 64 bits and change nothing', async () => {
    const refused = async (state) => {
      const attempts = [
        state.incr('high'),
        state.decr('low'),
        state.incr('low', -1n),
        state.decr('none', -(2n ** 63n)),
      ];
      return (await Promise.allSettled(attempts)).map(({ reason }) => reason.code);
    };
    const keys = { high: ['9223372036854775807'], low: ['-9223372036854775808'] };
    assert.deepEqual(await run(refused, keys), ok(Array(4).fill('invalid_argument')));
  });

  test('refuse values that are no decimal integers of 64 bits', async () => {
    const values = ['"1"', '1.0', '1e3', 'null', '[1]', 'true', '9223372036854775808', '-9223372036854775809', '01'];
    const keys = Object.fromEntries(values.map((value, i) => [`k${i}`, [value]]));
    const body = async (state) =>
      (await Promise.allSettled([0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => state.incr(`k${i}`)))).map(
        ({ reason }) => reason.code,
      );
    assert.deepEqual(await run(body, keys), ok(values.map(() => 'invalid_argument')));
  });

  test('refuse deltas that are no integers of 64 bits', async () => {
    for (const delta of ['1.5', '"1"', 'null', 'NaN', 'Infinity', '2n ** 63n', '2 ** 63', '{}']) {
      const { error } = await run(`(state) => state.incr('a', ${delta})`);
      assert.match(error.message, /^a delta is/, delta);
    }
  });

  test('take the ends of the range', async () => {
    const { body } = await run(async (state) => String(await state.incr('a', -(2n ** 63n))));
    assert.equal(body, '-9223372036854775808');
  });
});

describe('expiry', () => {
  test('is exact: a key is gone from its millisecond on', async () => {
    const look = async (state) => [
      await state.get('a'),
      await state.exists('a'),
      await state.keys(),
      await state.delete('a'),
    ];
    assert.deepEqual(await run(look, { a: ['1', 7, NOW] }), ok([null, false, [], false]));
    assert.deepEqual((await run(look, { a: ['1', 7, NOW + 60000] })).body, [1, true, ['a'], true]);
  });

  test('raises the floor, for the key and for others', async () => {
    const { writes } = await run(
      (state) => {
        state.set('other', 1);
        state.set('a', 1);
      },
      { a: ['1', 7, NOW] },
      { floor: 3 },
    );
    assert.deepEqual([writes.other[1], writes.a[1]], [8, 8]);
  });

  test('makes room for others', async () => {
    const keys = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, ['1', 1, i === 50 ? NOW : 0]]));
    const { body } = await run(
      async (state) => [await state.set('a', 1), await state.set('b', 1).catch((error) => error.code)],
      keys,
    );
    assert.deepEqual(body, [true, 'quota_exceeded']);
  });

  test('of a key written in the call makes it a deleted one', async () => {
    const result = await run(
      async (state) => {
        await state.set('a', 1, 0.001);
        await state.expire('b', 0.001);
        const begun = performance.now();
        while (performance.now() < begun + 3);
        return [await state.get('a'), await state.get('b')];
      },
      { b: ['2', 5] },
    );
    assert.deepEqual(result, ok([null, null], { deletes: { a: 1, b: 6 } }));
  });

  test('after the last operation counts too', async () => {
    const result = await run(async (state) => {
      await state.set('a', 1, 0.001);
      const begun = performance.now();
      while (performance.now() < begun + 3);
    });
    assert.deepEqual(result, ok(null, { deletes: { a: 1 } }));
  });

  test('comes to one key after another', async () => {
    const look = async (state) => {
      const first = await state.keys();
      const begun = performance.now();
      while (performance.now() < begun + 300);
      return [first, await state.keys()];
    };
    const keys = { a: ['1', 1, NOW], b: ['1', 1, NOW + 250], c: ['1', 1, NOW + HOUR] };
    assert.deepEqual((await run(look, keys)).body, [['b', 'c'], ['c']]);
  });

  test('is told by ttl in seconds, -1 if there is none', async () => {
    const { body } = await run(async (state) => [await state.ttl('a'), await state.ttl('b')], {
      a: ['1', 1, NOW + 90000],
      b: ['1', 1, 0],
    });
    assert.ok(body[0] > 30 && body[0] <= 90);
    assert.equal(body[1], -1);
  });

  test('is changed by expire and persist, which give a version and send no value', async () => {
    const result = await run(
      async (state) => [
        await state.expire('a', 60),
        await state.persist('b'),
        await state.ttl('b'),
        await state.get('a'),
      ],
      { a: ['1', 7, 0], b: ['2', 3, NOW + HOUR] },
    );
    assert.deepEqual(result.body, [true, true, -1, 1]);
    assert.deepEqual(result.writes, {});
    assert.equal(result.touches.a[0], 8);
    assertSoonAfter(result.touches.a[1], NOW + 60000);
    assert.deepEqual(result.touches.b, [4, 0]);
  });

  test('changed after a write goes with the write', async () => {
    const { writes, touches } = await run(async (state) => {
      await state.set('a', 1);
      await state.persist('a');
    });
    assert.deepEqual([writes.a, touches], [['1', 2, 0], {}]);
  });

  test('of a missing key is not_found', async () => {
    const body = async (state) =>
      (await Promise.allSettled([state.ttl('a'), state.expire('a', 1), state.persist('a')])).map(
        ({ reason }) => reason.code,
      );
    assert.deepEqual((await run(body)).body, ['not_found', 'not_found', 'not_found']);
  });

  test('refuses ttls that are none', async () => {
    const attempts = [
      ...['-2', '-0.5', 'NaN', 'Infinity', '-Infinity', '"1"', 'null', '{}', '10n', '1e300'].map(
        (ttl) => `set('a', 1, ${ttl})`,
      ),
      ...['0', '-1', '-5', 'undefined', 'NaN'].map((ttl) => `expire('b', ${ttl})`),
      `set_many({ a: 1 }, -2)`,
      `set_with_version('a', 1, undefined, -2)`,
    ];
    for (const attempt of attempts) {
      const result = await run(`(state) => state.${attempt}.catch((error) => error.code)`, { b: ['1'] });
      assert.deepEqual(result, ok('invalid_argument'), attempt);
    }
  });
});

describe('many keys', () => {
  test('get_many gives those that are there', async () => {
    const { body } = await run(async (state) => state.get_many(['a', 'x', 'b', 'a']), {
      a: ['1'],
      b: ['null'],
      c: ['3'],
    });
    assert.deepEqual(body, { a: 1, b: null });
  });

  test('set_many writes all, in one step', async () => {
    const result = await run(
      async (state) => [await state.set_many({ a: 1, b: 'x' }, -1), await state.setMany(new Map([['c', 3]]))],
      { a: ['0', 7] },
    );
    assert.deepEqual(result.body, [true, true]);
    assert.deepEqual(
      [result.writes.a, result.writes.b, result.writes.c.slice(0, 2)],
      [
        ['1', 8, 0],
        ['"x"', 1, 0],
        ['3', 1],
      ],
    );
  });

  test('set_many writes all or nothing', async () => {
    const refused = [
      '{ a: 1, b: undefined }',
      '{ a: 1, "": 2 }',
      '{ a: 1, b: "x".repeat(70000) }',
      'Object.fromEntries(Array.from({ length: 101 }, (_, i) => ["k" + i, i]))',
      '[1]',
      'null',
      '"ab"',
    ];
    for (const mapping of refused) {
      const result = await run(`(state) => state.set_many(${mapping}).catch((error) => 'refused')`, { a: ['0', 7] });
      assert.deepEqual(result, ok('refused'), mapping);
    }
  });

  test('keys such as __proto__ are data', async () => {
    const result = await run(async (state) => {
      await state.set('__proto__', { polluted: true });
      await state.set('constructor', 1);
      await state.set_many(JSON.parse('{"toString": 2, "__proto__": 3}'));
      const many = await state.get_many(['__proto__', 'constructor', 'toString', 'hasOwnProperty']);
      return [
        Object.keys(many).sort(),
        {}.polluted === undefined,
        await state.get('hasOwnProperty', 'none'),
        many['__proto__'],
      ];
    });
    assert.deepEqual(result.body, [['__proto__', 'constructor', 'toString'], true, 'none', 3]);
    assert.deepEqual(Object.keys(result.writes).sort(), ['__proto__', 'constructor', 'toString']);
  });

  test('get_many takes a list', async () => {
    for (const keys of ['"ab"', 'null', '5', '{}']) {
      assert.equal(
        (await run(`(state) => state.get_many(${keys}).catch((error) => error.code)`)).body,
        'invalid_argument',
      );
    }
  });
});

describe('keys', () => {
  const keysOf = async (names, pattern) => {
    const keys = Object.fromEntries(names.map((name) => [name, ['1']]));
    return (await run(`(state) => state.keys(${pattern === undefined ? '' : JSON.stringify(pattern)})`, keys)).body;
  };

  test('come in the order of their UTF-8 bytes', async () => {
    const names = ['b', 'a', 'Z', '\uffee', '😀', 'é', 'a b', '10', '9'];
    const sorted = [...names].sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
    assert.deepEqual(await keysOf(names), sorted);
  });

  test('match patterns', async () => {
    const names = [
      'cart',
      'cart:1',
      'cart:2',
      'user',
      'a*b',
      'a?b',
      'a[b',
      'a]b',
      'a\\b',
      '漢字',
      '😀',
      '^',
      '!',
      '-',
      'x',
    ];
    const cases = [
      ['*', names],
      ['cart', ['cart']],
      ['cart*', ['cart', 'cart:1', 'cart:2']],
      ['cart:?', ['cart:1', 'cart:2']],
      ['*:[0-1]', ['cart:1']],
      ['*r*', ['cart', 'cart:1', 'cart:2', 'user']],
      ['a\\*b', ['a*b']],
      ['a\\?b', ['a?b']],
      ['a[*]b', ['a*b']],
      ['a\\[b', ['a[b']],
      ['a[b', ['a[b']],
      ['a[\\]]b', ['a]b']],
      ['a\\\\b', ['a\\b']],
      ['??', ['漢字']],
      ['?', ['!', '-', '^', 'x', '😀']],
      ['[😀-😂]', ['😀']],
      ['[^x]', ['^', 'x']],
      ['[!x]', ['!', 'x']],
      ['[x-]', ['-', 'x']],
      ['[-x]', ['-', 'x']],
      ['[]', []],
      ['', []],
      ['**', names],
      ['[z-w]', ['x']],
      ['x\\', []],
      ['nothing', []],
    ];
    for (const [pattern, expected] of cases) {
      assert.deepEqual((await keysOf(names, pattern)).sort(), [...expected].sort(), pattern);
    }
  });

  test('cannot be made slow by a pattern', async () => {
    const begun = process.hrtime.bigint();
    assert.deepEqual(await keysOf(['a'.repeat(256)], `${'*a'.repeat(100)}b`), []);
    assert.ok(process.hrtime.bigint() - begun < 2000000000n);
  });

  test('refuses what is no pattern', async () => {
    for (const pattern of ['5', 'null', '"\\ud800"']) {
      assert.equal(
        (await run(`(state) => state.keys(${pattern}).catch((error) => error.code)`)).body,
        'invalid_argument',
      );
    }
  });
});

describe('limits', () => {
  const refusal = async (source, keys, options) => {
    const { body } = await run(`(state) => ${source}.then(() => 'done', (error) => error.code)`, keys, options);
    return body;
  };

  test('a key has 1 to 256 bytes of UTF-8 without control characters', async () => {
    const good = ['"a"', '"a".repeat(256)', '"é".repeat(128)', '"a b:{}*?[]%/"', '"\\u00a0"', '"😀"'];
    const bad = [
      '""',
      '"a".repeat(257)',
      '"é".repeat(129)',
      '"a\\nb"',
      '"\\0"',
      '"\\x7f"',
      '"\\x85"',
      '"\\ud800"',
      '5',
      'null',
      'undefined',
      '{}',
      'Symbol()',
    ];
    for (const key of good) assert.equal(await refusal(`state.set(${key}, 1)`), 'done', key);
    for (const key of bad) {
      for (const operation of ['get', 'get_with_version', 'delete', 'incr', 'exists', 'ttl', 'persist']) {
        assert.equal(await refusal(`state.${operation}(${key})`), 'invalid_argument', `${operation} ${key}`);
      }
      assert.equal(await refusal(`state.set(${key}, 1)`), 'invalid_argument', key);
      assert.equal(await refusal(`state.get_many([${key}])`), 'invalid_argument', key);
    }
  });

  test('a value is counted in bytes of its JSON', async () => {
    assert.equal(await refusal('state.set("a", "x".repeat(65534))'), 'done');
    assert.equal(await refusal('state.set("a", "x".repeat(65535))'), 'too_large');
    assert.equal(await refusal('state.set("a", "é".repeat(32767))'), 'done');
    assert.equal(await refusal('state.set("a", "é".repeat(32768))'), 'too_large');
  });

  test('values that JSON cannot say are refused, and the key is named', async () => {
    const cyclic = '(() => { const a = {}; a.a = a; return a; })()';
    for (const value of ['undefined', '() => 1', '1n', 'Symbol()', cyclic, '{ toJSON() { throw 1; } }']) {
      const { error } = await run(`(state) => state.set('the key', ${value})`);
      assert.match(error.message, /the key/, value);
      assert.equal(error.type, 'StateError');
    }
  });

  test('too many keys are refused, but not to write those that are there', async () => {
    const full = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`k${i}`, ['1']]));
    assert.equal(await refusal('state.set("new", 1)', full), 'quota_exceeded');
    assert.equal(await refusal('state.incr("new")', full), 'quota_exceeded');
    assert.equal(await refusal('state.set("k5", 2)', full), 'done');
    assert.equal(await refusal('state.delete("k5").then(() => state.set("new", 1))', full), 'done');
    const over = { ...full, more: ['1'] };
    assert.equal(await refusal('state.set_many({ k1: 1, more: 2 })', over), 'done');
    assert.equal(await refusal('state.set_many({ k1: 1, new: 2 })', over), 'quota_exceeded');
  });

  test('an operation that is refused changes nothing, and the function goes on', async () => {
    const result = await run(
      async (state) => {
        await state.set('a', 'x'.repeat(70000)).catch(() => {});
        await state.incr('b').catch(() => {});
        await state.set('c', 1, -7).catch(() => {});
        return 'went on';
      },
      { a: ['1'], b: ['"text"'] },
    );
    assert.deepEqual(result, ok('went on'));
  });
});

describe('limits of the function', () => {
  async function withLimits(state, body, keys = {}, options = {}) {
    const limited = await Host.load(EVALUATE, { state });
    try {
      return await limited.run(body, { state: { keys }, now: NOW, ...options });
    } finally {
      await limited.close();
    }
  }

  test('values are bounded together', async () => {
    const attempts = async (state) => {
      const outcomes = [];
      for (const [key, value] of [
        ['a', '12345'],
        ['b', '1'],
        ['b', 1],
        ['a', '1234'],
        ['c', 1],
        ['a', '12345'],
      ]) {
        outcomes.push(await state.set(key, value).catch((error) => error.code));
      }
      return outcomes;
    };
    const { body } = await withLimits({ max_total_bytes: 8 }, attempts);
    assert.deepEqual(body, [true, 'quota_exceeded', true, true, true, 'quota_exceeded']);
  });

  test('what is too much already may shrink but not grow', async () => {
    const attempts = async (state) => {
      const outcomes = [];
      for (const value of ['12345678', '1234567', '12345678', 1])
        outcomes.push(await state.set('a', value).catch((error) => error.code));
      return outcomes;
    };
    const { body } = await withLimits({ max_total_bytes: 4 }, attempts, { a: ['"12345678"'] });
    assert.deepEqual(body, [true, true, 'quota_exceeded', true]);
  });

  test('0 means none', async () => {
    const all = async (state) => {
      await state.set('big', 'x'.repeat(1000000));
      for (let i = 0; i < 500; i++) await state.set(`k${i}`, i);
      return state.ttl('big');
    };
    const none = { max_value_bytes: 0, max_keys: 0, max_total_bytes: 0, default_ttl_ms: 0 };
    const result = await withLimits(none, all);
    assert.equal(result.body, -1);
    assert.equal(Object.keys(result.writes).length, 501);
    assert.equal(result.writes.big[0].length, 1000002);
  });

  test('where state is not enabled every operation is forbidden', async () => {
    const attempts = async (state) => {
      const operations = [
        state.get('a'),
        state.set('a', 1),
        state.incr('a'),
        state.keys(),
        state.clear(),
        state.get_many([]),
        state.function().get('a'),
        state.invocation().set('a', 1),
      ];
      return (await Promise.allSettled(operations)).map(({ reason }) => reason.code);
    };
    assert.deepEqual(await withLimits({ enabled: false }, attempts), ok(Array(8).fill('forbidden')));
  });
});

describe('invocation scope', () => {
  test('is empty when a call begins, and gone when it ends', async () => {
    const look = async (state) => {
      const scratch = state.invocation();
      const before = await scratch.get('a');
      await scratch.set('a', 5);
      await scratch.incr('a');
      return [
        before,
        await scratch.get('a'),
        await state.get('a'),
        await scratch.get_with_version('a'),
        await scratch.keys(),
      ];
    };
    for (let i = 0; i < 2; i++) {
      assert.deepEqual(await run(look, { a: ['1', 7] }), ok([null, 6, 1, { value: 6, version: 2 }, ['a']]));
    }
  });

  test('scopes are reached from each other', async () => {
    const look = async (state) => {
      await state.invocation().set('a', 'invocation');
      await state.invocation().session().set('a', 'session');
      return [await state.session().get('a'), await state.session().invocation().get('a')];
    };
    assert.deepEqual((await run(look)).body, ['session', 'invocation']);
  });
});
