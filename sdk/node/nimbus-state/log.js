'use strict';
// For those who want no more than lines: `LEVEL message key=value …`, the same in every SDK.

const { inspect } = require('util');

const PLAIN = /^[^\s"=]+$/;

function write(level, message, fields) {
  const parts = Object.entries(fields ?? {}).map(([name, value]) => ` ${name}=${shown(value)}`);
  process.stdout.write(`${level} ${oneLine(message)}${parts.join('')}\n`);
}

function oneLine(message) {
  const text = typeof message === 'string' ? message : inspect(message);
  return text.replaceAll('\n', '\\n');
}

// As it is where that can be told from what follows, quoted otherwise.
function shown(value) {
  const text = typeof value === 'string' ? value : inspect(value, { breakLength: Infinity });
  return PLAIN.test(text) ? text : JSON.stringify(text);
}

const log = {
  debug: (message, fields) => write('DEBUG', message, fields),
  info: (message, fields) => write('INFO', message, fields),
  warn: (message, fields) => write('WARNING', message, fields),
  error: (message, fields) => write('ERROR', message, fields),
};

module.exports = { log };
