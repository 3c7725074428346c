'use strict';
// What a call costs in the instance: `node benchmark.js [calls in flight] [seconds]`.
//
// Plays the server to a real instance. The function gets one key, adds 1, sets it and returns a small object.
// Frames are made beforehand and answers only counted, so that this side is quick enough to keep the other busy.
// The CPU time is the instance's own, of all its threads.

const { spawn } = require('child_process');
const { once } = require('events');
const fs = require('fs');
const { Host, encode } = require('./testing/host');

const IN_FLIGHT = Number(process.argv[2] ?? 16);
const SECONDS = Number(process.argv[3] ?? 4);

const FUNCTIONS = {
  'state argument, async': `exports.handle = async (event, state) => {
    const n = await state.get('n', 0);
    await state.set('n', n + 1);
    return { n: n + 1 };
  };`,
  'global state, async': `const { state } = require('nimbus-state');
  exports.handle = async (event) => {
    const n = await state.get('n', 0);
    await state.set('n', n + 1);
    return { n: n + 1 };
  };`,
  'no state, plain': `exports.handle = (event) => ({ n: event.n });`,
};

function invoke(request) {
  const context = {
    request_id: '01J9Z3V5Q7X8Y2M4N6P8R0T2V4',
    function_id: 'counter',
    version: 3,
    session_key: `user-${request}`,
    session_seq: 17,
    attempt: 1,
    deadline_ms: 1790000000000,
    traceparent: null,
  };
  const state = { floor: 4, complete: true, keys: [['n', 12, 1790003570000, 3]] };
  return encode('invoke', request, { context, now: 1789999970000, state }, ['{"n":1}', '311']);
}

function cpuSeconds(pid) {
  const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

// Keeps IN_FLIGHT calls under way for some seconds, lets them end, and tells what one of them cost.
function drive(host, seconds) {
  const frames = Array.from({ length: IN_FLIGHT }, (_, i) => invoke(i + 1));
  const end = performance.now() + 1000 * seconds;
  const cpu = cpuSeconds(host.process.pid);
  let calls = 0;
  let batches = 0;
  let under_way = IN_FLIGHT;
  let rest = Buffer.alloc(0);
  return new Promise((resolve) => {
    host.socket.removeAllListeners('data');
    host.socket.on('data', (bytes) => {
      const input = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
      const again = [];
      let at = 0;
      while (input.length - at >= 16 && input.length - at >= 4 + input.readUInt32LE(at)) {
        again.push(frames[input.readUInt32LE(at + 8) - 1]);
        at += 4 + input.readUInt32LE(at);
      }
      rest = input.subarray(at);
      calls += again.length;
      batches++;
      if (performance.now() < end) host.socket.write(Buffer.concat(again));
      else under_way -= again.length;
      if (under_way > 0) return;
      const micros = ((cpuSeconds(host.process.pid) - cpu) * 1e6) / calls;
      resolve({ micros, rate: calls / seconds, batch: calls / batches });
    });
    host.socket.write(Buffer.concat(frames));
  });
}

const median = (list) => list.sort((left, right) => left - right)[list.length >> 1];

// From the start of the process to Hello, and from Load to Ready; beside it a Node that only writes one byte.
async function startup() {
  const times = { hello: [], ready: [], bare: [], first: [], second: [] };
  for (let i = 0; i < 15; i++) {
    let begun = performance.now();
    const bare = spawn(process.execPath, ['-e', 'require("fs").writeSync(3, "x")'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    });
    await once(bare.stdio[3], 'data');
    times.bare.push(performance.now() - begun);
    await once(bare, 'close');
    begun = performance.now();
    const host = new Host();
    await once(host.socket, 'data');
    times.hello.push(performance.now() - begun);
    await host.loadFunction(FUNCTIONS['global state, async']);
    times.ready.push(performance.now() - host.loadedAt);
    begun = performance.now();
    await host.call({ n: 1 });
    times.first.push(performance.now() - begun);
    begun = performance.now();
    await host.call({ n: 1 });
    times.second.push(performance.now() - begun);
    await host.close();
  }
  const { hello, ready, bare, first, second } = Object.fromEntries(
    Object.entries(times).map(([name, list]) => [name, median(list).toFixed(1)]),
  );
  console.log(`start to Hello: ${hello} ms (a Node that only writes a byte: ${bare} ms); Load to Ready: ${ready} ms`);
  console.log(`the first call: ${first} ms, the second: ${second} ms`);
}

async function main() {
  console.log(`node ${process.versions.node}, ${IN_FLIGHT} calls in flight`);
  await startup();
  for (const [name, source] of Object.entries(FUNCTIONS)) {
    const host = await Host.load(source);
    await drive(host, 1); // until it is compiled
    const { micros, rate, batch } = await drive(host, SECONDS);
    console.log(
      `${name}: ${micros.toFixed(1)} µs of CPU a call, ${Math.round(rate)} calls/s, ${batch.toFixed(1)} a batch`,
    );
    await host.close();
  }
}

main();
