'use strict';
// One call of the function: what it was given, the state it sees, and how it ended.

const { performance } = require('perf_hooks');
const { OperationCounts } = require('./counts');
const { invokeHead } = require('./heads');
const { StateError } = require('./nimbus-state/error');
const { stateOf } = require('./nimbus-state/state');
const { Overlay } = require('./overlay');
const { PartialOverlay } = require('./partial');
const { Remote } = require('./remote');

// Functions may replace it.
const monotonic = performance.now.bind(performance);

const RUNNING = 0;
const RETURNED = 1;
const FAILED = 2;

class Call {
  #limits;
  #ask;
  #given; // the state that came along, if it is not a stateless call
  #now;
  #arrived;
  #session = null;
  #invocation = null;
  #function = null;
  #replies = null; // by id: who waits for which reply to a State frame
  #lastId = 0;

  // `frame` is the Invoke; `ask(call, head, values)` sends a State frame.
  constructor(frame, limits, ask) {
    const { context, now, state } = invokeHead(frame);
    this.request = frame.request;
    this.context = context;
    this.frame = frame;
    this.state = stateOf(this);
    this.begun = false;
    this.stored = false; // runs with an asynchronous storage of its own
    this.repliedAt = -1; // at which flush there last was a reply to one of its State frames
    this.outcome = RUNNING;
    this.value = undefined; // what it returned or threw
    this.ended = false; // the Result is written
    this.cancelled = null; // why, if nobody waits for the Result any more
    this.operations = new OperationCounts();
    this.events = []; // appended to the session's log, as JSON
    this.sent = null; // { head, text } of each call that it sends
    this.#limits = limits;
    this.#ask = ask;
    this.#given = state;
    this.#now = now;
    this.#arrived = monotonic();
  }

  event() {
    return JSON.parse(this.frame.text(1));
  }

  // The first end counts, but that a failure nobody handled still replaces what was returned.
  settle(outcome, value) {
    if (this.ended || this.outcome === FAILED || this.outcome === outcome) return;
    this.outcome = outcome;
    this.value = value;
  }

  // Whoever still holds the call, such as work that outlives it, does not hold what came with it.
  end() {
    this.ended = true;
    this.frame = null;
    this.#session = null;
    this.#invocation = null;
  }

  // The store's time in Unix milliseconds: what it was when the call came, and what has passed since.
  now() {
    return Math.floor(this.#now + monotonic() - this.#arrived);
  }

  // Operations are under way, awaited or not; the Result waits for them.
  get busy() {
    if (this.#replies !== null && this.#replies.size > 0) return true;
    return this.#session instanceof Overlay && this.#session.busy;
  }

  // Entries of the session's keys that the call changed.
  changes() {
    return this.#session instanceof Overlay ? this.#session.changes() : [];
  }

  // The newest events of the session's log.
  async recentEvents(count) {
    const { frame } = await this.#send(`"operation":"events.recent","count":${count}`, []);
    return Array.from({ length: frame.segments - 1 }, (_, i) => JSON.parse(frame.text(i + 1)));
  }

  // An operation on state: `act` does it, given the space of the scope. What goes to the server is counted there.
  perform(scope, operation, act) {
    let answer;
    try {
      answer = act(this.#space(scope));
    } catch (error) {
      this.operations.failed(scope, operation, error);
      throw error;
    }
    if (!(answer instanceof Promise)) {
      this.operations.succeeded(scope, operation);
    } else if (scope !== 'function' && this.#given) {
      // Of a session that did not come whole.
      answer.then(
        () => this.operations.succeeded(scope, operation),
        (error) => this.operations.failed(scope, operation, error),
      );
    }
    return answer;
  }

  // Where the operations of a scope are carried out. Throws if the call may not use state.
  #space(scope) {
    if (this.ended) throw new StateError('unavailable', 'the call has ended; its state can be used no longer');
    if (this.cancelled !== null) throw new StateError('unavailable', `the call has ended: ${this.cancelled}`);
    if (!this.#limits.enabled) throw new StateError('forbidden', 'state is not enabled for this function');
    if (scope === 'session') return (this.#session ??= this.#openSession());
    if (scope === 'invocation') return (this.#invocation ??= new Overlay(this.#limits, this, 0));
    return (this.#function ??= this.remote('function'));
  }

  // A reply to one of its State frames.
  reply(frame) {
    const head = frame.head();
    const waiting = this.#replies === null ? undefined : this.#replies.get(head.id);
    if (waiting === undefined) return;
    this.#replies.delete(head.id);
    if (head.success) waiting.resolve({ head, frame });
    else waiting.reject(new StateError(head.error, head.message, head.current_version));
  }

  #openSession() {
    const given = this.#given;
    if (!given) return this.remote('session');
    const complete = given.complete && given.keys.length <= this.frame.segments - 2;
    const session = complete
      ? new Overlay(this.#limits, this, given.floor)
      : new PartialOverlay(this.#limits, this, given, (keys) => this.#load(keys));
    session.add(given.keys, this.frame, 2);
    return session;
  }

  // What is the server's while the call runs.
  remote(scope) {
    return new Remote(scope, (members, values) => this.#send(members, values));
  }

  async #load(keys) {
    const wanted = keys === undefined ? '' : `,"keys":${JSON.stringify(keys)}`;
    const { head, frame } = await this.#send(`"scope":"session","operation":"load"${wanted}`, []);
    return { listed: head.keys, frame };
  }

  #send(members, values) {
    const id = ++this.#lastId;
    this.#ask(this, `{"id":${id},${members}}`, values);
    return new Promise((resolve, reject) => {
      this.#replies ??= new Map();
      this.#replies.set(id, { resolve, reject });
    });
  }
}

module.exports = { Call, RUNNING, RETURNED, FAILED };
