'use strict';
// Which code is loaded, what it finds, and what is said when it does not load.

const assert = require('node:assert/strict');
const { describe, test } = require('node:test');
const { Host } = require('../testing/host');

async function answerOf(files, settings, options) {
  const host = await Host.load(files, settings, options);
  try {
    return (await host.call({ n: 1 })).body;
  } finally {
    await host.close();
  }
}

async function errorOf(files, settings) {
  const host = new Host();
  const { error } = await host.loadFunction(files, settings);
  const { code } = await host.exit;
  await host.close();
  assert.equal(code, 1);
  return error;
}

describe('the handler', () => {
  const forms = [
    [
      'module.exports = { handle }',
      { 'main.js': 'async function handle(event) { return event.n; } module.exports = { handle };' },
    ],
    ['exports.handle', { 'main.js': 'exports.handle = (event) => event.n;' }],
    ['a .cjs file', { 'main.cjs': 'exports.handle = (event) => event.n;' }],
    ['a .mjs file', { 'main.mjs': 'export function handle(event) { return event.n; }' }],
    [
      'an export by default',
      { 'main.mjs': 'export default { one: 1, handle(event) { return this.one * event.n; } };' },
    ],
    [
      'a .js file of a package of modules',
      { 'package.json': '{"type":"module"}', 'main.js': 'export const handle = (event) => event.n;' },
    ],
    [
      'a .cjs file of a package of modules',
      { 'package.json': '{"type":"module"}', 'main.cjs': 'exports.handle = (event) => event.n;' },
    ],
    [
      'a module that awaits',
      { 'main.mjs': 'const one = await Promise.resolve(1); export const handle = (event) => one * event.n;' },
    ],
    [
      'a default of CommonJS',
      { 'main.js': 'exports.__esModule = true; exports.default = { handle: (event) => event.n };' },
    ],
  ];
  for (const [name, files] of forms) {
    test(`may be ${name}`, async () => assert.equal(await answerOf(files), 1));
  }

  test('may be in a folder, and have any name', async () => {
    const files = {
      'src/app/api.v2.js': 'exports.answer = (event) => require("../one") * event.n;',
      'src/one.js': 'module.exports = 1;',
    };
    assert.equal(await answerOf(files, { handler: 'src/app/api.v2.answer' }), 1);
  });

  test('is found in .js before .cjs before .mjs', async () => {
    const files = {
      'main.mjs': 'export const handle = () => "mjs";',
      'main.cjs': 'exports.handle = () => "cjs";',
      'main.js': 'exports.handle = () => "js";',
    };
    assert.equal(await answerOf(files), 'js');
    delete files['main.js'];
    assert.equal(await answerOf(files), 'cjs');
  });
});

describe('the process', () => {
  test('runs in the directory of the function', async () => {
    const files = {
      'main.js':
        'exports.handle = () => [require("fs").readFileSync("data.txt", "utf8"), __dirname === process.cwd()];',
      'data.txt': 'x',
    };
    assert.deepEqual(await answerOf(files), ['x', true]);
  });

  test('has a clean environment', async () => {
    const env = {
      PATH: '/bin',
      HOME: '/h',
      LANG: 'C',
      LC_ALL: 'C',
      TZ: 'UTC',
      TMPDIR: '/tmp',
      NODE_ENV: 'test',
      SECRET: 's',
      NIMBUS_KEY: 'k',
      PATHS: 'p',
    };
    const seen = await answerOf(
      'exports.handle = () => process.env;',
      { env: { GREETING: 'hello', HOME: '/mine', NUMBER: 5 } },
      { env },
    );
    assert.deepEqual(seen, {
      PATH: '/bin',
      HOME: '/mine',
      LANG: 'C',
      LC_ALL: 'C',
      TZ: 'UTC',
      TMPDIR: '/tmp',
      NODE_ENV: 'test',
      GREETING: 'hello',
      NUMBER: '5',
    });
  });

  test('has the environment when the code is loaded', async () => {
    assert.equal(
      await answerOf('const { GREETING } = process.env; exports.handle = () => GREETING;', {
        env: { GREETING: 'hello' },
      }),
      'hello',
    );
  });

  test('dies near its limit of memory if it was started with one', { timeout: 60000 }, async () => {
    const hog =
      'exports.handle = () => { for (const all = []; ; ) all.push(new Array(1000).fill(0).map((_, i) => ({ i }))); };';
    const host = await Host.load(hog, {}, { args: ['--max-old-space-size=64'] });
    host.begin();
    const { code, signal } = await host.exit;
    await host.close();
    assert.ok(signal === 'SIGABRT' || code === 134, `it ended with ${code ?? signal}`);
    assert.match(host.stderr, /heap out of memory/);
  });
});

describe('code that does not load', () => {
  test('names file and line of a syntax error', async () => {
    const broken = '\nconst a = 1;\nfunction handle( { ]\n';
    const cases = [
      ['main.js', 3, { 'main.js': broken }],
      ['main.cjs', 3, { 'main.cjs': broken }],
      ['main.mjs', 3, { 'main.mjs': broken }],
      ['main.js', 3, { 'main.js': `${broken}\nexport {};`, 'package.json': '{"type":"module"}' }],
      ['lib/part.js', 3, { 'main.js': 'require("./lib/part");', 'lib/part.js': broken }],
      [
        'lib/part.mjs',
        3,
        {
          'main.mjs': 'import fs from "fs";\nimport { a } from "./lib/between.mjs";',
          'lib/between.mjs': 'export * from "./part.mjs";',
          'lib/part.mjs': broken,
        },
      ],
      ['main.mjs', 2, { 'main.mjs': '\nimport { nowhere } from "fs";' }],
      ['main.js', 2, { 'main.js': 'const a = 1;\nexports.handle = async () => { for await };' }],
    ];
    for (const [file, line, files] of cases) {
      const error = await errorOf(files);
      assert.deepEqual(
        [error.type, error.file, error.line],
        ['SyntaxError', file, line],
        JSON.stringify([files, error]),
      );
      assert.ok(error.message.length > 0);
    }
  });

  test('names file and line of an error thrown while loading', async () => {
    const cases = [{ 'main.js': '\n\nnull.x;' }, { 'main.mjs': '\n\nnull.x;' }, { 'main.mjs': 'await 1;\n\nnull.x;' }];
    for (const files of cases) {
      const error = await errorOf(files);
      assert.deepEqual([error.type, error.file, error.line], ['TypeError', Object.keys(files)[0], 3]);
      assert.match(error.trace, /^TypeError: Cannot read/);
      assert.doesNotMatch(error.trace, /node:internal|loading\.js/);
    }
    const nested = await errorOf({ 'main.js': 'require("./lib")', 'lib.js': '\nthrow new RangeError("in lib");' });
    assert.deepEqual([nested.type, nested.message, nested.file, nested.line], ['RangeError', 'in lib', 'lib.js', 2]);
  });

  test('may throw anything', async () => {
    const error = await errorOf('throw "text";');
    assert.deepEqual(error, { type: 'String', message: 'text' });
  });

  test('names what it could not find', async () => {
    const required = await errorOf('\nrequire("no-such-package");');
    assert.match(required.message, /no-such-package/);
    assert.deepEqual([required.file, required.line], ['main.js', 2]);
    const imported = await errorOf({ 'main.mjs': 'import "./no-such-file.mjs";' });
    assert.match(imported.message, /no-such-file/);
    assert.equal(imported.file, 'main.mjs');
  });

  test('is told when there is no such file, or no such function in it', async () => {
    const missing = await errorOf({ 'other.js': '' });
    assert.deepEqual(missing, { type: 'LoadError', message: 'there is no file main.js, main.cjs, main.mjs' });
    const nothing = await errorOf('exports.other = () => 1;');
    assert.deepEqual(nothing, { type: 'LoadError', message: 'main.js does not export "handle"', file: 'main.js' });
    const number = await errorOf({ 'main.mjs': 'export const handle = 5;' });
    assert.deepEqual(number, {
      type: 'LoadError',
      message: '"handle" of main.mjs is no function but number',
      file: 'main.mjs',
    });
    assert.match((await errorOf('', { handler: 'main' })).message, /^a handler is named file\.symbol/);
    assert.match((await errorOf('module.exports = null;')).message, /does not export/);
    assert.match((await errorOf('', { directory: '/nowhere/at/all' })).message, /no such file or directory/);
  });

  test('has printed what it printed', async () => {
    const host = new Host();
    await host.loadFunction('console.log("one"); process.stdout.write("two"); throw new Error("no");');
    await host.exit;
    await host.close();
    assert.deepEqual(
      host.unclaimed.map(({ request, values }) => [request, values[0]]),
      [
        [0, 'one\n'],
        [0, 'two\n'],
      ],
    );
  });

  test('ends the process without an answer if it exits while loading', async () => {
    const host = new Host();
    const ready = host.loadFunction('process.exit(7);');
    await assert.rejects(ready);
    assert.equal((await host.exit).code, 7);
    await host.close();
  });
});
