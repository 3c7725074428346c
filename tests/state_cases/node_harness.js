'use strict';
// Runs the cases that come on stdin, a JSON list, and prints what came of the calls of each.

const fs = require('fs');
const { testFunction } = require('nimbus-state/testing');
const { handle } = require('./functions/node/main.js');

async function callOnce(fn, { session = 'session', call, fails = false, returns }) {
  const event = { operations: call.map((one) => one.do), fails, returns };
  const { status_code, body, error } = await (session === null ? fn : fn.session(session)).call(event);
  return { status: status_code, body: error === null ? body : JSON.parse(error.message) };
}

async function run({ state_config, steps }) {
  const fn = testFunction(handle, { state_config });
  const outcomes = [];
  for (const step of steps) {
    if ('advance' in step) fn.clock.advance(step.advance);
    else if ('delete' in step) fn.session(step.delete).delete();
    else outcomes.push(await callOnce(fn, step));
  }
  return outcomes;
}

(async () => {
  const outcomes = [];
  for (const one of JSON.parse(fs.readFileSync(0, 'utf8'))) outcomes.push(await run(one));
  process.stdout.write(JSON.stringify(outcomes));
})();
