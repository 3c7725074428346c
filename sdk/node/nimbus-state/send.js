'use strict';
// Calls that a function sends. They leave with what the call wrote, or not at all if it fails.

const { StateError } = require('./error');
const { runningCall } = require('./state');

const MOST = 1000; // of one call
const LONGEST = 366 * 86400;

const invalid = (message) => new StateError('invalid_argument', message);

// Has the function called with `payload`, later and once: in the order of `session`, or without one if that is null.
// Calls to one session arrive in the order in which they were sent. `delay` is in seconds.
async function send(functionId, session = null, payload = null, delay = 0) {
  const call = runningCall();
  if (call === null || call.ended) {
    throw new StateError('unavailable', 'no call is running here: send() belongs to a call of a function on Nimbus');
  }
  if (typeof functionId !== 'string' || functionId === '') throw invalid('send() begins with the id of a function');
  if (session !== null && (typeof session !== 'string' || session === '')) {
    throw invalid('a session key is a string, or null for none');
  }
  if (typeof delay !== 'number' || !(delay >= 0 && delay <= LONGEST)) {
    throw invalid('a delay is a number of seconds, at most a year');
  }
  const text = JSON.stringify(payload);
  if (text === undefined) throw invalid(`a ${typeof payload} cannot be sent`);
  call.sent ??= [];
  if (call.sent.length === MOST) throw invalid(`a call sends at most ${MOST} others`);
  call.sent.push({ head: JSON.stringify([functionId, session, Math.round(delay * 1000)]), text });
}

module.exports = { send };
