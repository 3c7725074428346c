'use strict';
// How calls begin, run side by side and end.

const assert = require('node:assert/strict');
const { after, before, describe, test } = require('node:test');
const { Host, EVALUATE, encode } = require('../testing/host');

const nothing = { writes: {}, touches: {}, deletes: {} };

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

async function withFunction(files, use, settings) {
  const own = await Host.load(files, settings);
  try {
    return await use(own);
  } finally {
    await own.close();
  }
}

test('an instance says hello at once', () => {
  const { protocol, language, language_version, sdk, pid } = host.hello;
  assert.deepEqual([protocol, language, language_version, pid], [1, 'node', process.versions.node, host.process.pid]);
  assert.match(sdk, /^\d+\.\d+\.\d+$/);
});

describe('a function', () => {
  test('gets the event and the context as they stand', async () => {
    const context = {
      request_id: 'ä"\\😀',
      session_key: 'a b',
      traceparent: '00-1-2-01',
      something_new: { deep: [1] },
    };
    const event = { text: 'ü', list: [1, null], __proto__x: 1 };
    await withFunction('exports.handle = (event, state, context) => ({ event, context });', async (own) => {
      const { body } = await own.call(event, { context });
      assert.deepEqual(body.event, event);
      assert.deepEqual(body.context, {
        request_id: 'ä"\\😀',
        function_id: 'f',
        version: 1,
        session_key: 'a b',
        session_seq: 1,
        attempt: 1,
        deadline_ms: 2000000,
        traceparent: '00-1-2-01',
        something_new: { deep: [1] },
      });
      assert.deepEqual(Object.keys((await own.call(event)).body.context), [
        'request_id',
        'function_id',
        'version',
        'session_key',
        'session_seq',
        'attempt',
        'deadline_ms',
        'traceparent',
      ]);
    });
  });

  test('gets the same from a head with spaces, strange strings or odd numbers in it', async () => {
    await withFunction(
      'exports.handle = async (event, state, context) => [context, await state.get_with_version("n")];',
      async (own) => {
        const usual = {
          context: {
            request_id: 'r',
            function_id: 'f',
            version: 3,
            session_key: 's',
            session_seq: 17,
            attempt: 1,
            deadline_ms: 1790000000000,
            traceparent: null,
          },
          now: 1789999970000,
          state: { floor: 4, complete: true, keys: [['n', 12, 1790003570000, 3]] },
        };
        const strange = structuredClone(usual);
        strange.context.session_key = 'a","now":1,"\\ é\u2028\u0000😀';
        const heads = [
          [usual, JSON.stringify(usual)],
          [usual, JSON.stringify(usual, null, 2)],
          [strange, JSON.stringify(strange)],
          [
            { ...usual, context: { ...usual.context, traceparent: '00-a-b-01' } },
            JSON.stringify({ ...usual, context: { ...usual.context, traceparent: '00-a-b-01' } }),
          ],
          [usual, JSON.stringify(usual).replace('"attempt":1', '"attempt":1.0e0')],
          [usual, JSON.stringify({ ...usual, state: { keys: usual.state.keys, complete: true, floor: 4 } })],
        ];
        for (const [{ context }, text] of heads) {
          own.send('invoke', 5, text, ['{}', '311']);
          assert.deepEqual((await own.result(5)).body, [context, { value: 311, version: 12 }], text);
        }
      },
    );
  });

  test('returns a value, plainly or by a promise, and nothing is null', async () => {
    const cases = [
      ['() => ({ a: [1, "é😀"] })', { a: [1, 'é😀'] }],
      ['async () => 5', 5],
      ['() => undefined', null],
      ['async () => {}', null],
      ['() => null', null],
      ['() => new Date(0)', '1970-01-01T00:00:00.000Z'],
      ['() => ({ then: (done) => done(7) })', 7],
      ['() => new Promise((done) => setTimeout(done, 1, "later"))', 'later'],
      ['() => false', false],
      ['() => ""', ''],
    ];
    for (const [source, body] of cases)
      assert.deepEqual(await host.run(source), { ...nothing, status: 200, body }, source);
  });

  test('says its own status by an object with exactly status_code and body', async () => {
    const cases = [
      ['{ status_code: 201, body: { a: 1 } }', 201, { a: 1 }],
      ['{ body: 1, status_code: 599 }', 599, 1],
      ['{ status_code: 204, body: undefined }', 204, null],
      ['{ status_code: 200, body: { status_code: 300, body: 1 } }', 200, { status_code: 300, body: 1 }],
    ];
    for (const [source, status, body] of cases) {
      assert.deepEqual(await host.run(`() => (${source})`), { ...nothing, status, body }, source);
    }
    const ordinary = [
      '{ status_code: 199, body: 1 }',
      '{ status_code: 600, body: 1 }',
      '{ status_code: "200", body: 1 }',
      '{ status_code: 200.5, body: 1 }',
      '{ status_code: 200 }',
      '{ status_code: 200, body: 1, more: 2 }',
    ];
    for (const source of ordinary) {
      assert.deepEqual(
        await host.run(`() => (${source})`),
        { ...nothing, status: 200, body: eval(`(${source})`) },
        source,
      );
    }
  });

  test('fails with what it throws, and what it wrote is sent', async () => {
    const result = await host.run(async function failing(state) {
      await state.set('a', 1);
      throw new RangeError('too far');
    });
    assert.deepEqual([result.error.type, result.error.message, result.body], ['RangeError', 'too far', '']);
    assert.match(result.error.trace, /^RangeError: too far\n {4}at failing/);
    assert.doesNotMatch(result.error.trace, /sdk\/node\/[a-z]+\.js|node:internal/);
    assert.equal(result.writes.a[0], '1');
  });

  test('may throw anything', async () => {
    const cases = [
      ['"text"', 'String', 'text'],
      ['5', 'Number', '5'],
      ['null', 'null', 'null'],
      ['undefined', 'undefined', 'undefined'],
      ['Symbol("s")', 'Symbol', 'Symbol(s)'],
      ['{ a: 1 }', 'Object', '{ a: 1 }'],
      ['{ message: "m" }', 'Object', 'm'],
      ['Object.create(null)', 'Error', '[Object: null prototype] {}'],
      ['new (class Mine extends TypeError {})("m")', 'Mine', 'm'],
      ['() => 1', 'Function', '[Function (anonymous)]'],
    ];
    for (const [thrown, type, message] of cases) {
      for (const source of [`() => { throw ${thrown}; }`, `async () => { throw ${thrown}; }`]) {
        const { error } = await host.run(source);
        assert.deepEqual([error.type, error.message], [type, message], source);
      }
    }
  });

  test('may throw what resists being looked at', async () => {
    const hostile = [
      'new Proxy({}, { get() { throw new Error("no"); }, getPrototypeOf() { throw 1; }, ownKeys() { throw 2; } })',
      'Object.defineProperties(new Error("m"), { message: { get() { throw 1; } }, stack: { get() { throw 2; } }, constructor: { get() { throw 3; } } })',
      'Object.assign(new Error(), { message: 5, stack: {}, constructor: { name: 7 } })',
      '{ get message() { throw 1; }, toString() { throw 2; }, [Symbol.for("nodejs.util.inspect.custom")]() { throw 3; } }',
    ];
    for (const thrown of hostile) {
      const { error } = await host.run(`() => { throw ${thrown}; }`);
      assert.equal(typeof error.type, 'string', thrown);
      assert.equal(typeof error.message, 'string', thrown);
    }
    assert.equal((await host.run('() => 1')).body, 1);
  });

  test('fails in bounded words', async () => {
    const { error } = await host.run(() => {
      const error = new Error('m'.repeat(1000000));
      error.stack = `Error\n${'    at x (/a.js:1:1)\n'.repeat(100000)}`;
      throw error;
    });
    assert.ok(error.message.length <= 8192 && error.trace.length <= 65536);
    assert.equal((await host.run('() => { throw new Error("half \\ud800 pair"); }')).error.message, 'half \ufffd pair');
  });

  test('fails if what it returns cannot be made JSON', async () => {
    for (const source of [
      '1n',
      '(() => { const a = {}; a.a = a; return a; })()',
      '{ toJSON() { throw new Error("no"); } }',
      '() => 1',
      'Symbol()',
      '{ get status_code() { throw 1; }, body: 2 }',
    ]) {
      const { error, writes } = await host.run(`async (state) => { await state.set('a', 1); return ${source}; }`);
      assert.equal(typeof error.message, 'string', source);
      assert.equal(writes.a[0], '1');
    }
  });

  test('may use its state while what it returns is made JSON', async () => {
    const { writes } = await host.run((state) => ({ toJSON: () => void state.set('a', 1) || 'made' }));
    assert.equal(writes.a[0], '1');
  });

  test('fails if what it returns and wrote is too large to send', { timeout: 60000 }, async () => {
    const too_much = await host.run('() => "x".repeat(65 * 1024 * 1024)');
    assert.equal(too_much.error.type, 'ResultTooLarge');
    await withFunction(
      EVALUATE,
      async (own) => {
        const { error, writes } = await own.run(async (state) => {
          await state.set('a', 'x'.repeat(40 * 1024 * 1024));
          await state.set('b', 'x'.repeat(40 * 1024 * 1024));
        });
        assert.deepEqual([error.type, writes], ['ResultTooLarge', {}]);
        const kept = await own.run(async (state) => {
          await state.set('a', 'x'.repeat(40 * 1024 * 1024));
          return 'é'.repeat(20 * 1024 * 1024);
        });
        assert.deepEqual([kept.error.type, kept.writes.a[0].length], ['ResultTooLarge', 40 * 1024 * 1024 + 2]);
      },
      { state: { max_value_bytes: 0 } },
    );
  });

  test('returns and gets megabytes', { timeout: 60000 }, async () => {
    const text = 'é😀x'.repeat(1000000);
    await withFunction('exports.handle = async (event, state) => [event, await state.get("a")];', async (own) => {
      const { body } = await own.call(text, { state: { keys: { a: [JSON.stringify(`${text}!`)] } } });
      assert.ok(body[0] === text && body[1] === `${text}!`);
    });
  });

  test('keeps its memory between calls', async () => {
    await withFunction('let n = 0; exports.handle = () => ++n;', async (own) => {
      assert.deepEqual([(await own.call()).body, (await own.call()).body], [1, 2]);
    });
  });
});

describe('calls side by side', () => {
  const GATES = `
    const open = {};
    exports.handle = async (event, state) => {
      if (event.open) return open[event.open]();
      const before = await state.get('who');
      await new Promise((resolve) => (open[event.gate] = resolve));
      await state.set('who', event.gate);
      return [before, await state.get('who')];
    };`;

  test('run at once as many as there may be, each with its own state', async () => {
    await withFunction(GATES, async (own) => {
      const names = Array.from({ length: 15 }, (_, i) => `g${i}`);
      const requests = names.map((gate) =>
        own.begin({ gate }, { state: { keys: { who: [JSON.stringify(`before ${gate}`), 3] } } }),
      );
      for (const gate of [...names].reverse()) await own.call({ open: gate });
      for (const [i, gate] of names.entries()) {
        const result = await own.result(requests[i]);
        assert.deepEqual(result.body, [`before ${gate}`, gate]);
        assert.deepEqual(result.writes.who.slice(0, 2), [JSON.stringify(gate), 4]);
      }
    });
  });

  test('with a concurrency of 1 run one after another, in order', async () => {
    const source = `let running = 0; const seen = [];
      exports.handle = async (event) => {
        if (++running > 1) throw new Error('two at once');
        seen.push(event);
        await new Promise((resolve) => setImmediate(resolve));
        running--;
        return [...seen];
      };`;
    await withFunction(
      source,
      async (own) => {
        const requests = [1, 2, 3, 4, 5].map((event) => own.begin(event));
        const bodies = [];
        for (const request of requests) bodies.push((await own.result(request)).body);
        assert.deepEqual(bodies, [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 5]]);
      },
      { concurrency: 1 },
    );
  });

  test('that come together are answered together', async () => {
    const chunks = [];
    const count = (bytes) => chunks.push(bytes.length);
    host.socket.on('data', count);
    host.socket.cork();
    const requests = [
      host.begin(`async (state) => { await state.set('a', 1); }`),
      host.begin(`() => { const begun = performance.now(); while (performance.now() < begun + 50); }`),
      host.begin(`async (state) => { await state.set('a', 1); }`),
    ];
    host.socket.uncork();
    for (const request of requests) assert.equal((await host.result(request)).status, 200);
    host.socket.off('data', count);
    assert.equal(chunks.length, 1);
  });

  test('have requests of all 64 bits', async () => {
    const answers = [];
    for (const request of [1n, 2n ** 32n + 5n, 2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 64n - 1n]) {
      const found = new Promise((resolve) => host.socket.once('data', (bytes) => resolve(bytes.readBigUInt64LE(8))));
      host.send('invoke', request, { context: {}, now: 1, state: { floor: 0, complete: true, keys: [] } }, [
        '"() => 1"',
      ]);
      answers.push((await found) === request);
    }
    assert.deepEqual(answers, [true, true, true, true, true]);
  });
});

describe('after its end a call', () => {
  test('cannot use its state any more', async () => {
    const late = `async (state) => { globalThis.late = () => state.set('a', 1).catch((error) => [error.code, error.message]); }`;
    await host.run(late);
    const { body, writes } = await host.run('() => globalThis.late()');
    assert.equal(body[0], 'unavailable');
    assert.match(body[1], /ended/);
    assert.deepEqual(writes, {});
  });

  test('that was cancelled cannot use its state, and its result is sent all the same', async () => {
    const request = host.begin(`async (state) => {
      await new Promise((resolve) => (globalThis.resume = resolve));
      return state.set('a', 1).catch((error) => [error.code, error.message]);
    }`);
    await host.run('() => 1');
    host.send('cancel', request, { reason: 'timeout' });
    await host.run('() => globalThis.resume()');
    assert.deepEqual((await host.result(request)).body, ['unavailable', 'the call has ended: timeout']);
  });

  test('leaves nothing for the garbage collector to keep', async () => {
    const source = `globalThis.kept = [];
      exports.handle = (event, state) => { kept.push(state); global.gc(); return process.memoryUsage().arrayBuffers; };`;
    const own = await Host.load(source, {}, { args: ['--expose-gc'] });
    const keys = { a: [JSON.stringify('x'.repeat(1000000))] };
    const used = [];
    for (let i = 0; i < 20; i++) used.push((await own.call(null, { state: { keys } })).body);
    await own.close();
    assert.ok(used[19] < used[4] + 5000000, String(used));
  });

  test('that was cancelled before it began never begins', async () => {
    const source = `const begun = []; let resume;
      exports.handle = async (event) => { begun.push(event); if (event === 1) await new Promise((r) => setTimeout(r, 20)); return begun; };`;
    await withFunction(
      source,
      async (own) => {
        const [first, second, third] = [1, 2, 3].map((event) => own.begin(event));
        own.send('cancel', second, { reason: 'cancelled' });
        assert.match((await own.result(second)).error.message, /cancelled before it began/);
        assert.deepEqual((await own.result(first)).body, [1]);
        assert.deepEqual((await own.result(third)).body, [1, 3]);
      },
      { concurrency: 1 },
    );
  });

  test('that nobody knows may be cancelled', async () => {
    host.send('cancel', 123456, { reason: 'cancelled' });
    assert.equal((await host.run('() => 1')).body, 1);
  });
});

describe('rejections that nobody handles', () => {
  test('fail the call they belong to', async () => {
    const { error, writes } = await host.run(async (state) => {
      await state.set('a', 1);
      Promise.reject(new TypeError('forgotten'));
      return 'fine';
    });
    assert.deepEqual([error.type, error.message, writes.a[0]], ['TypeError', 'forgotten', '1']);
  });

  test('of state operations too, and only that call', async () => {
    host.socket.cork();
    const bad = host.begin(`async (state) => { state.set('a', undefined); return 'fine'; }`);
    const good = host.begin(`async () => 'fine'`);
    host.socket.uncork();
    assert.equal((await host.result(bad)).error.type, 'StateError');
    assert.equal((await host.result(good)).body, 'fine');
  });

  test('end a call that would wait for ever', async () => {
    const { error } = await host.run(() => {
      setTimeout(() => Promise.reject(new Error('later')), 1);
      return new Promise(() => {});
    });
    assert.equal(error.message, 'later');
  });

  test('of no call are printed, and the instance goes on', async () => {
    await withFunction(`Promise.reject(new Error('at load')); exports.handle = () => 1;`, async (own) => {
      const { request, head, values } = await own.next('log');
      assert.deepEqual([request, head], [0, { stream: 'stderr' }]);
      assert.match(values[0], /^unhandled rejection: Error: at load\n/);
      assert.equal((await own.call()).body, 1);
    });
  });
});

describe('the instance ends', () => {
  async function endOf(source, event = null) {
    const own = await Host.load(source);
    own.begin(event);
    const end = await own.exit;
    await own.close();
    return {
      ...end,
      logs: own.unclaimed.filter(({ type }) => type === 'log'),
      results: own.unclaimed.filter(({ type }) => type === 'result'),
    };
  }

  test('with an exception that nobody catches, which is printed', async () => {
    const { code, logs } = await endOf(
      `exports.handle = () => new Promise(() => setTimeout(() => { throw new Error('in a timer'); }, 1));`,
    );
    assert.equal(code, 1);
    assert.match(logs[0].values[0], /^uncaught exception: Error: in a timer\n {4}at .*main\.js:1/);
  });

  test('when the function exits, and what it printed is not lost', async () => {
    const { code, logs, results } = await endOf(
      `exports.handle = () => { process.stdout.write('half a line'); process.exit(3); };`,
    );
    assert.equal(code, 3);
    assert.deepEqual([logs.map(({ values }) => values[0]), results], [['half a line\n'], []]);
  });

  test('and takes its end of the channel along: processes it starts do not inherit it', async () => {
    await withFunction(
      `exports.handle = () => require('child_process').execFileSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' });`,
      async (own) => {
        assert.doesNotMatch((await own.call()).body, / ([3-9]|[0-9]{2,}) -> socket/);
      },
    );
  });

  test('when the server closes its end, whatever runs', async () => {
    const own = await Host.load(`exports.handle = () => new Promise(() => setInterval(() => {}, 1000));`);
    own.begin();
    own.socket.end();
    assert.deepEqual(await own.exit, { code: 0, signal: null });
    await own.close();
  });

  test('when what comes is no frame', async () => {
    const frame = encode('invoke', 1, {}, ['1']);
    const broken = (change) => {
      const copy = Buffer.from(frame);
      change(copy);
      return copy;
    };
    const garbage = [
      Buffer.alloc(64, 0xff),
      broken((copy) => copy.writeUInt16LE(0, 6)),
      broken((copy) => copy.writeUInt16LE(900, 6)),
      broken((copy) => copy.writeUInt32LE(5, 16)),
      broken((copy) => copy.writeUInt32LE(0, 0)),
      encode('invoke', 1, 'no json', ['1']),
    ];
    for (const bytes of garbage) {
      const own = await Host.load('exports.handle = () => 1;');
      own.socket.write(bytes);
      assert.equal((await own.exit).code, 1);
      assert.match(own.stderr, /^nimbus: the channel to the server failed: /);
      await own.close();
    }
  });
});

test('frames of an unknown type and members of a head that are unknown are ignored', async () => {
  host.send(99, 0, { what: 'is this' });
  const head = {
    context: { request_id: 'r' },
    now: 1,
    state: { floor: 0, complete: true, keys: [], more: 1 },
    more: { a: 1 },
  };
  host.send('invoke', 70001, head, ['"() => 1"']);
  assert.equal((await host.result(70001)).body, 1);
});

test('frames may come in pieces of any size', async () => {
  const frame = encode(
    'invoke',
    70002,
    { context: {}, now: 1, state: { floor: 0, complete: true, keys: [['a', 1, 0, 3]] } },
    [JSON.stringify('(state) => state.get("a")'), '"x"'],
  );
  for (const byte of frame) {
    host.socket.write(Buffer.from([byte]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  assert.equal((await host.result(70002)).body, 'x');
});

test('an event that is no JSON fails the call, not the instance', async () => {
  host.send('invoke', 70003, { context: {}, now: 1, state: { floor: 0, complete: true, keys: [] } }, ['{broken']);
  assert.equal((await host.result(70003)).error.type, 'SyntaxError');
  assert.equal((await host.run('() => 1')).body, 1);
});
