'use strict';
// What a function threw, as the protocol says it: { type, message, trace }. Anything can be thrown, and reading
// it runs the function's code: whatever that does, this returns strings.

const path = require('path');
const { inspect } = require('util');

const MOST_MESSAGE = 8 * 1024;
const MOST_TRACE = 64 * 1024;
const FRAME = /^ +at /;
const SDK = __dirname + path.sep;

function describe(thrown) {
  const failure = { type: typeOf(thrown), message: messageOf(thrown) };
  const trace = traceOf(thrown);
  if (trace !== null) failure.trace = trace;
  return failure;
}

// The stack without the frames of the SDK and of Node's own machinery: they say nothing about the function.
function traceOf(thrown) {
  const stack = read(() => (thrown instanceof Error ? thrown.stack : null));
  if (typeof stack !== 'string') return null;
  const lines = stack.slice(0, 2 * MOST_TRACE).split('\n');
  const own = lines.filter((line) => !(FRAME.test(line) && (line.includes(SDK) || line.includes('node:internal/'))));
  return text(own.join('\n'), MOST_TRACE);
}

function typeOf(thrown) {
  if (thrown === null || thrown === undefined) return String(thrown);
  const name = read(() => thrown.constructor.name);
  return typeof name === 'string' && name !== '' ? text(name, 256) : 'Error';
}

function messageOf(thrown) {
  const message = read(() => thrown.message);
  if (typeof message === 'string') return text(message, MOST_MESSAGE);
  const shown = read(() => (typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 2, customInspect: false })));
  return typeof shown === 'string' ? text(shown, MOST_MESSAGE) : 'it could not be shown';
}

function read(getter) {
  try {
    return getter();
  } catch {
    return undefined;
  }
}

// Half a surrogate pair has no place in JSON that others read.
function text(string, most) {
  return string.slice(0, most).replace(/\p{Surrogate}/gu, '\ufffd');
}

module.exports = { describe };
