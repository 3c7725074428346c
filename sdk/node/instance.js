'use strict';
// A process that runs one function for the server, over descriptor 3: see docs/protocol.md.

const { Calls } = require('./calls');
const { Channel } = require('./channel');
const { describe } = require('./failure');
const { HELLO, LOAD, READY, INVOKE, CANCEL, STATE } = require('./frames');
const { load } = require('./loading');
const { captureOutput } = require('./logs');
const api = require('./nimbus-state/api');
const { version } = require('./nimbus-state/package.json');
const { findCallsBy } = require('./nimbus-state/state');
const { rehearse } = require('./rehearsal');

const channel = new Channel(3);
const calls = new Calls(channel, (call) => output.forEach((stream) => stream.finish(call)));
const output = captureOutput(channel, () => {
  const call = calls.current();
  return call === null || call.ended ? null : call;
});

findCallsBy(() => calls.current());
globalThis[Symbol.for('nimbus-state')] = () => {
  calls.trackAsynchronously();
  return api;
};

function receive(frame) {
  switch (frame.type) {
    case INVOKE:
      return calls.invoke(frame);
    case STATE:
      return calls.reply(frame);
    case CANCEL:
      return calls.cancel(frame.request, frame.head().reason);
    case LOAD:
      return void start(frame.head());
  }
}

async function start(settings) {
  const { handle, error } = await load(settings);
  if (error === undefined) {
    calls.start(handle, settings.state, settings.concurrency);
    channel.send(READY, 0, '{}');
    channel.flush();
  } else {
    channel.send(READY, 0, JSON.stringify({ error }));
    channel.close(1);
  }
}

process.on('unhandledRejection', (reason) => {
  if (!calls.rejected(reason)) process.stderr.write(`unhandled rejection: ${shown(reason)}\n`);
});

process.on('uncaughtException', (error) => {
  process.stderr.write(`uncaught exception: ${shown(error)}\n`);
  process.exit(1);
});

// What has been printed and answered so far is not lost with the process.
process.on('exit', () => {
  output.forEach((stream) => stream.finishAll());
  calls.flush();
});

function shown(thrown) {
  const { type, message, trace } = describe(thrown);
  return trace ?? `${type}: ${message}`;
}

function hello() {
  const { pid, versions } = process;
  channel.send(
    HELLO,
    0,
    JSON.stringify({ protocol: 1, language: 'node', language_version: versions.node, sdk: version, pid }),
  );
  channel.flush();
}

channel.open(receive, () => calls.received());
rehearse().then(hello);
