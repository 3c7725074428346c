'use strict';
// What functions print.

const assert = require('node:assert/strict');
const { after, before, test } = require('node:test');
const { Host, EVALUATE } = require('../testing/host');

let host;
before(async () => (host = await Host.load(EVALUATE)));
after(() => host.close());

// What a call printed before its result: [stream, text] for each frame.
async function printedBy(body, own = host) {
  const request = own.begin(String(body));
  await own.result(request);
  const logs = own.unclaimed.splice(0);
  assert.ok(logs.every((frame) => frame.type === 'log' && frame.request === request));
  return logs.map(({ head, values }) => [head.stream, values[0]]);
}

test('lines are sent with the call that printed them, before its result', async () => {
  const printed = await printedBy(() => {
    console.log('plain', { a: 1 });
    console.error('an error');
    process.stdout.write('written\n');
    process.stderr.write('to stderr\n');
    console.warn('é😀');
  });
  assert.deepEqual(printed, [
    ['stdout', 'plain { a: 1 }\n'],
    ['stderr', 'an error\n'],
    ['stdout', 'written\n'],
    ['stderr', 'to stderr\n'],
    ['stderr', 'é😀\n'],
  ]);
});

test('only whole lines are sent, the rest when the call ends', async () => {
  const printed = await printedBy(async () => {
    process.stdout.write('a');
    process.stdout.write('b\nc\nd');
    await null;
    process.stdout.write('e');
    process.stderr.write('f');
  });
  assert.deepEqual(printed, [
    ['stdout', 'ab\nc\n'],
    ['stdout', 'de\n'],
    ['stderr', 'f\n'],
  ]);
});

test('bytes are text, even if a character comes in two pieces', async () => {
  const printed = await printedBy(() => {
    const bytes = Buffer.from('é\n');
    process.stdout.write(bytes.subarray(0, 1));
    process.stdout.write(bytes.subarray(1));
    process.stdout.write('c3a40a', 'hex');
    process.stdout.write(new Uint8Array([65, 10]));
  });
  assert.deepEqual(printed, [
    ['stdout', 'é\n'],
    ['stdout', 'ä\n'],
    ['stdout', 'A\n'],
  ]);
});

test('callbacks and streams work as on the real ones', async () => {
  const { body } = await host.run(async () => {
    await new Promise((resolve) => process.stdout.write('x\n', resolve));
    await new Promise((resolve) =>
      require('stream').Readable.from(['p', 'iped\n']).pipe(process.stdout, { end: false }).on('unpipe', resolve),
    );
    process.stdout.end('ended\n');
    process.stdout.destroy();
    process.stdout.write('still open\n');
    return [process.stdout.fd, process.stderr.fd, process.stdout.isTTY === undefined];
  });
  assert.deepEqual(body, [1, 2, true]);
  assert.equal(
    host.unclaimed
      .splice(0)
      .map(({ values }) => values[0])
      .join(''),
    'x\npiped\nended\nstill open\n',
  );
});

test('calls that came together keep their lines apart', async () => {
  host.socket.cork();
  const requests = Array.from({ length: 8 }, (_, i) =>
    host.begin(`async () => { process.stdout.write('${i}'); await null; console.log('!'); }`),
  );
  host.socket.uncork();
  for (const request of requests) await host.result(request);
  const printed = host.unclaimed.splice(0).map(({ request, values }) => [request, values[0]]);
  assert.deepEqual(
    printed,
    requests.map((request, i) => [request, `${i}!\n`]),
  );
});

test('lines of nobody in particular have request 0', async () => {
  host.socket.cork();
  const requests = ['a', 'b'].map((name) =>
    host.begin(
      `async () => { await new Promise((r) => setTimeout(r, 5)); console.log('${name}'); await new Promise((r) => setTimeout(r, 5)); }`,
    ),
  );
  host.socket.uncork();
  for (const request of requests) await host.result(request);
  assert.deepEqual(
    host.unclaimed
      .splice(0)
      .map(({ request, values }) => [request, values[0]])
      .sort(),
    [
      [0, 'a\n'],
      [0, 'b\n'],
    ],
  );
});

test('a line leaves at once, though the function never returns to the event loop', async () => {
  const own = await Host.load(`exports.handle = () => { console.log('about to hang'); for (;;); };`);
  const request = own.begin();
  const { values } = await own.next('log', request);
  assert.equal(values[0], 'about to hang\n');
  own.process.kill('SIGKILL');
  await own.close();
});

test('very long lines are cut, and nothing is lost', async () => {
  const printed = await printedBy(() => {
    process.stdout.write(`${'x'.repeat(3000000)}\n`);
    process.stdout.write('short line\n'.repeat(300000));
  });
  const text = printed.map(([, lines]) => lines).join('');
  assert.ok(printed.every(([, lines]) => lines.endsWith('\n') && lines.length <= 1024 * 1024 + 1));
  assert.equal(text.replaceAll('\n', '').length, 3000000 + 300000 * 10);
  assert.equal(text.split('\n').filter((line) => line === 'short line').length, 300000);
});

test('more than the server reads is dropped, and that is said', async () => {
  const own = await Host.load(EVALUATE);
  own.socket.pause();
  const request = own.begin(`async () => { for (let i = 0; i < 40; i++) console.log('x'.repeat(1000000)); }`);
  own.socket.resume();
  await own.result(request);
  const next = own.begin(`() => console.log('next')`);
  await own.result(next);
  const lines = own.unclaimed.map(({ values }) => values[0]);
  assert.ok(lines.length < 40);
  assert.match(lines[lines.length - 2], /^… \d+ characters were dropped/);
  assert.equal(lines[lines.length - 1], 'next\n');
  await own.close();
});

test('log writes one line with level and fields', async () => {
  const own = await Host.load(`const { log } = require('nimbus-state');
    exports.handle = () => {
      log.debug('d');
      log.info('two\\nlines', { order: 17, who: 'é', what: 'a "b"', big: 1n, list: [1, 2] });
      log.warn(['w']);
      log.error('e', null);
    };`);
  await own.call();
  assert.deepEqual(
    own.unclaimed.map(({ head, values }) => [head.stream, values[0]]),
    [
      ['stdout', 'DEBUG d\n'],
      ['stdout', 'INFO two\\nlines order=17 who=é what="a \\"b\\"" big=1n list="[ 1, 2 ]"\n'],
      ['stdout', "WARNING [ 'w' ]\n"],
      ['stdout', 'ERROR e\n'],
    ],
  );
  await own.close();
});
