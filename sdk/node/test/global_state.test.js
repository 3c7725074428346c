'use strict';
// require('nimbus-state'): the state of whichever call runs.

const assert = require('node:assert/strict');
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { Host, deploy } = require('../testing/host');

async function withFunction(files, use, settings) {
  const own = await Host.load(files, settings);
  try {
    return await use(own);
  } finally {
    await own.close();
  }
}

const GATES = `
  const { state, State } = require('nimbus-state');
  const open = {};
  async function deeper(gate) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    await State.session().set('deep', gate);
    return state.get('who');
  }
  exports.handle = async (event) => {
    if (event.open) return open[event.open]();
    await state.set('first', event.gate);
    await new Promise((resolve) => (open[event.gate] = resolve));
    await state.incr('n');
    await State.invocation().set('scratch', event.gate);
    return [await deeper(event.gate), await state.invocation().get('scratch'), await state.get('first')];
  };`;

test('is that of its call, however calls interleave', async () => {
  await withFunction(GATES, async (own) => {
    const names = Array.from({ length: 15 }, (_, i) => `g${i}`);
    const requests = names.map((gate, i) =>
      own.begin({ gate }, { state: { keys: { who: [JSON.stringify(gate)], n: [String(i)] } } }),
    );
    for (const gate of [...names].reverse()) await own.call({ open: gate });
    for (const [i, gate] of names.entries()) {
      const { body, writes } = await own.result(requests[i]);
      assert.deepEqual(body, [gate, gate, gate]);
      assert.deepEqual(
        [writes.n[0], writes.deep[0], Object.keys(writes).sort()],
        [String(i + 1), JSON.stringify(gate), ['deep', 'first', 'n']],
      );
    }
  });
});

test('reaches function scope: the counter of the documentation', async () => {
  const source = `const { state } = require('nimbus-state');
    async function handle(event) {
      if (event.action === 'increment') return { count: await state.function().incr('global_counter') };
      if (event.action === 'get') return { count: (await state.function().get('global_counter')) || 0 };
    }
    module.exports = { handle };`;
  await withFunction(source, async (own) => {
    const request = own.begin({ action: 'increment' }, { state: null });
    const { head } = await own.next('state', request);
    assert.deepEqual([head.scope, head.operation, head.key], ['function', 'incr', 'global_counter']);
    own.send('state', request, { id: head.id, success: true, value: 12, version: 12 });
    assert.deepEqual((await own.result(request)).body, { count: 12 });
  });
});

test('may be asked for its scopes before any call runs', async () => {
  const source = `const { State } = require('nimbus-state'); const scratch = State.invocation();
    exports.handle = async () => { await scratch.set('a', 1); return scratch.keys(); };`;
  await withFunction(source, async (own) => assert.deepEqual((await own.call()).body, ['a']));
});

test("is nobody's where no call runs", async () => {
  const source = `const { state } = require('nimbus-state');
    const early = state.get('a').catch((error) => [error.name, error.code, error.message]);
    exports.handle = () => early;`;
  await withFunction(source, async (own) => {
    const { body } = await own.call();
    assert.deepEqual(body.slice(0, 2), ['StateError', 'unavailable']);
    assert.match(body[2], /no call is running/);
  });
});

test('of work that outlives its call is not that of another call', async () => {
  const source = `const { state } = require('nimbus-state'); let outcome; let resume;
    exports.handle = async (event) => {
      if (event === 'leave') {
        outcome = new Promise((resolve) => (resume = resolve)).then(() => state.set('a', 'late')).catch((error) => error.message);
        return;
      }
      resume();
      return outcome;
    };`;
  await withFunction(
    source,
    async (own) => {
      await own.call('leave');
      const { body, writes } = await own.call('look');
      assert.match(body, /the call has ended/);
      assert.deepEqual(writes, {});
    },
    { concurrency: 1 },
  );
});

test('is found by prints and rejections too', async () => {
  const source = `require('nimbus-state'); const open = {};
    exports.handle = async (event) => {
      if (event.open) return open[event.open]();
      await new Promise((resolve) => (open[event.gate] = resolve));
      console.log('from', event.gate);
      if (event.gate === 'b') Promise.reject(new Error('forgotten'));
      return 1;
    };`;
  await withFunction(source, async (own) => {
    const [a, b] = ['a', 'b'].map((gate) => own.begin({ gate }));
    await own.call({ open: 'b' });
    await own.call({ open: 'a' });
    assert.equal((await own.result(b)).error.message, 'forgotten');
    assert.equal((await own.result(a)).body, 1);
    const logs = own.unclaimed.map(({ request, values }) => [request, values[0]]);
    assert.deepEqual(logs, [
      [b, 'from b\n'],
      [a, 'from a\n'],
    ]);
  });
});

const CHECK = `[typeof State.session().get, state instanceof State, new StateError('c', 'm', 3).current_version, typeof log.info]`;

test('can be required and imported, and is one and the same', async () => {
  const main = `import * as all from 'nimbus-state'; import { state, State, StateError, log } from 'nimbus-state';
    import { createRequire } from 'module'; const required = createRequire(import.meta.url)('nimbus-state');
    export const handle = async (event, given) => {
      await state.set('a', 1);
      const same = [all.state === state, required.state === state, given instanceof State];
      return [...${CHECK}, ...same, await given.get('a'), await required.state.get('a')];
    };`;
  await withFunction({ 'main.mjs': main }, async (own) => {
    assert.deepEqual((await own.call()).body, ['function', true, 3, 'function', true, true, true, 1, 1]);
  });
});

test('is the same in a copy of the package that the function brings', async () => {
  const copied = {};
  const folder = path.join(__dirname, '..', 'nimbus-state');
  for (const name of fs.readdirSync(folder))
    copied[`node_modules/nimbus-state/${name}`] = fs.readFileSync(path.join(folder, name), 'utf8');
  const main = `const { state, State } = require('nimbus-state');
    exports.handle = async (event, given) => { await state.set('a', 1); return [given instanceof State, require.resolve('nimbus-state').startsWith(process.cwd())]; };`;
  await withFunction({ ...copied, 'main.js': main }, async (own) => {
    const { body, writes } = await own.call();
    assert.deepEqual([body, writes.a[0]], [[true, true], '1']);
  });
});

test('outside an instance the package loads, and says that no call is running', () => {
  const code = `const { state, State, StateError, log } = require('nimbus-state');
    state.get('a').catch((error) => console.log(JSON.stringify([...${CHECK}, error.code])));`;
  const { directory, remove } = deploy({});
  try {
    const printed = execFileSync(process.execPath, ['-e', code], { cwd: directory, encoding: 'utf8' });
    assert.deepEqual(JSON.parse(printed), ['function', true, 3, 'function', 'unavailable']);
  } finally {
    remove();
  }
});
