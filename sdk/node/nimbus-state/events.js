'use strict';
// The event log of the call's session. Events are appended when the call ends, together with its state, or not at all
// if it fails.

const { randomBytes } = require('crypto');
const { StateError } = require('./error');
const { currentCall } = require('./state');

const MOST_EVENTS = 500;
const MOST_RECENT = 1000;

const invalid = (message) => new StateError('invalid_argument', message);

function runningCall() {
  const call = currentCall();
  if (call === null || call.ended) throw new StateError('unavailable', 'events belong to a call, and none is running here');
  if (call.context.session_key === null) throw invalid('a call without a session has no event log');
  return call;
}

const events = Object.freeze({
  // Resolves to the event's id, which is made if none is given.
  async append(event) {
    if (event === null || typeof event !== 'object' || Array.isArray(event)) throw invalid('an event is an object');
    if (event.content === undefined) throw invalid('an event needs a content');
    const id = event.id ?? `evt_${randomBytes(10).toString('hex')}`;
    if (typeof id !== 'string') throw invalid("an event's id is a string");
    let text;
    try {
      text = JSON.stringify({ ...event, id });
    } catch (error) {
      throw invalid(`the event cannot be made JSON: ${error instanceof Error ? error.message : 'its toJSON threw'}`);
    }
    const call = runningCall();
    if (call.events.length >= MOST_EVENTS) {
      throw new StateError('quota_exceeded', `a call appends at most ${MOST_EVENTS} events`);
    }
    call.events.push(text);
    return id;
  },

  // The newest n events, oldest first: those of the log, then those that this call has appended, which have no seq yet.
  async recent(n = 10) {
    if (!Number.isInteger(n) || n < 1 || n > MOST_RECENT) throw invalid(`1 to ${MOST_RECENT} events can be read`);
    const call = runningCall();
    const own = call.events.slice(-n).map((text) => JSON.parse(text));
    if (own.length === n) return own;
    return [...(await call.recentEvents(n - own.length)), ...own];
  },
});

module.exports = { events };
