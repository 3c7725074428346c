'use strict';
// Runs a function without a server, for the tests of whoever writes it: require('nimbus-state/testing').
//
//   const { testSession } = require('nimbus-state/testing');
//   const alice = testSession(handle, 'alice');
//   assert.deepEqual(await alice.invoke({ add: 2 }), { count: 2 });
//   assert.deepEqual(alice.state, { count: 2 });
//
// State is kept between calls, is rolled back when a call fails, and expires by a clock that only the test moves. It is
// the SDK's own state, and the rules are the server's: both are held to the cases in tests/state_cases. What is the
// server's alone is not here: time-outs, processes, memory limits, calls that overlap.

const { AsyncLocalStorage } = require('async_hooks');
const { setImmediate: nextTurn } = require('timers/promises');
const { Call, FAILED, RETURNED } = require('./call');
const { INVOKE, readFrame, roomFor, writeFrame } = require('./frames');
const api = require('./nimbus-state/api');
const { findCallsBy } = require('./nimbus-state/state');
const { Overlay, WRITTEN, define } = require('./overlay');
const { resultOf } = require('./result');

const DEFAULT_SESSION = '_default'; // what calls without a session use

const STATE_CONFIG = {
  enabled: true,
  default_ttl: 3600,
  max_state_size: 65536,
  max_keys: 100,
  max_total_size: 0,
  session_affinity: true,
  session_timeout: 3600,
  on_error: 'rollback',
};
const RETRY = { max_attempts: 3, initial_ms: 1000, factor: 2, max_ms: 300000 };

const storage = new AsyncLocalStorage();
findCallsBy(() => storage.getStore() ?? null);
// For functions that bring a copy of the package.
globalThis[Symbol.for('nimbus-state')] ??= () => api;

class Clock {
  now_ms = Date.now();

  now() {
    return this.now_ms;
  }

  advance(seconds) {
    if (!(seconds >= 0)) throw new RangeError('time does not go back');
    this.now_ms += Math.round(seconds * 1000);
  }
}

// What the server would keep of one scope.
class Keys {
  #limits;
  #clock;
  #entries = new Map(); // by key: { version, expires, text }
  #floor = 0;

  constructor(limits, clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  // What an Invoke carries of it: the `state` of its head, and the values.
  list() {
    this.#sweep();
    const keys = [];
    const texts = [];
    for (const [key, { version, expires, text }] of this.#entries) {
      keys.push([key, version, expires, Buffer.byteLength(text)]);
      texts.push(text);
    }
    return { state: { floor: this.#floor, complete: true, keys }, texts };
  }

  values() {
    this.#sweep();
    const values = {};
    for (const key of [...this.#entries.keys()].sort()) define(values, key, JSON.parse(this.#entries.get(key).text));
    return values;
  }

  // One operation that is a commit of its own.
  perform(operation, args) {
    const { state, texts } = this.list();
    const overlay = new Overlay(this.#limits, this.#clock, state.floor);
    overlay.add(state.keys, { segments: texts.length, text: (i) => texts[i] }, 0);
    const answer = overlay[operation](...args);
    this.commit(overlay.changes());
    return answer;
  }

  // Takes over what became of the keys that a call changed.
  commit(changed) {
    for (const { key, there, version, expires, change, text } of changed) {
      if (!there) {
        this.#entries.delete(key);
        this.#floor = Math.max(this.#floor, version);
      } else {
        this.#entries.set(key, { version, expires, text: change === WRITTEN ? text : this.#entries.get(key).text });
      }
    }
  }

  #sweep() {
    for (const [key, { version, expires }] of this.#entries) {
      if (expires === 0 || expires > this.#clock.now()) continue;
      this.#entries.delete(key);
      this.#floor = Math.max(this.#floor, version);
    }
  }
}

// Has the methods of an Overlay; each is carried out and kept at once, whatever becomes of the call.
function atOnce(keys) {
  return new Proxy({}, { get: (_, operation) => (...args) => keys.perform(operation, args) });
}

// A call whose state is the harness's. All else, from the Invoke to the Result, is as in an instance.
class HarnessCall extends Call {
  #clock;
  #shared; // by scope: keys that are changed at once
  #log; // events of the session

  constructor(limits, clock, shared, session, log, event, context) {
    const { state, texts } = session === null ? { state: undefined, texts: [] } : session.list();
    const head = JSON.stringify({ context, now: clock.now(), state });
    super(frameOf(head, [JSON.stringify(event), ...texts]), limits, null);
    this.#clock = clock;
    this.#shared = shared;
    this.#log = log;
  }

  async recentEvents(count) {
    return structuredClone(this.#log.slice(-count));
  }

  now() {
    return this.#clock.now();
  }

  remote(scope) {
    return atOnce(this.#shared[scope]);
  }
}

function frameOf(head, values) {
  const text = head + values.join('');
  const buffer = Buffer.alloc(roomFor(text, values));
  return readFrame(buffer, 0, writeFrame(buffer, 0, INVOKE, 1, head, values, text));
}

class TestFunction {
  clock = new Clock();
  sent = []; // function, session, payload and delay of what calls have sent
  #handle;
  #timeout;
  #retry;
  #keeps;
  #limits;
  #functionKeys;
  #sessions = new Map();
  #nextSeq = new Map();
  #events = new Map();
  #requests = 0;

  constructor(handle, settings) {
    const { id = 'function', timeout_ms = 30000, state_config = {}, retry = {}, ...unknown } = settings;
    for (const name of Object.keys(unknown)) throw new TypeError(`there is no setting "${name}" in tests`);
    if (typeof handle !== 'function') throw new TypeError('a handler is a function');
    const config = withDefaults('state_config', STATE_CONFIG, state_config);
    this.id = id;
    this.#handle = handle;
    this.#timeout = timeout_ms;
    this.#retry = withDefaults('retry', RETRY, retry);
    this.#keeps = config.on_error === 'keep';
    this.#limits = {
      enabled: config.enabled,
      default_ttl_ms: Math.round(config.default_ttl * 1000),
      max_value_bytes: config.max_state_size,
      max_keys: config.max_keys,
      max_total_bytes: config.max_total_size,
    };
    this.#functionKeys = new Keys(this.#limits, this.clock);
  }

  session(key, state) {
    return new TestSession(this, key, state);
  }

  get state() {
    return this.#functionKeys.values();
  }

  async invoke(event = null) {
    return bodyOf(await this.call(event));
  }

  async call(event = null) {
    return this.#run(event, this.#context(null, null));
  }

  // ---- for sessions

  keysOf(session) {
    if (!this.#sessions.has(session)) this.#sessions.set(session, new Keys(this.#limits, this.clock));
    return this.#sessions.get(session);
  }

  forget(session) {
    this.#sessions.delete(session);
    this.#nextSeq.delete(session);
    this.#events.delete(session);
  }

  eventsOf(session) {
    if (!this.#events.has(session)) this.#events.set(session, []);
    return this.#events.get(session);
  }

  callSession(event, session) {
    return this.#run(event, this.#context(session, this.#takeSeq(session)));
  }

  async deliver(event, session) {
    const { max_attempts, initial_ms, factor, max_ms } = this.#retry;
    const context = this.#context(session, this.#takeSeq(session));
    for (let attempt = 1, wait = initial_ms; ; attempt++, wait *= factor) {
      const answer = await this.#run(event, { ...context, attempt });
      if (answer.error === null || attempt >= max_attempts) return answer;
      this.clock.advance(Math.min(wait, max_ms) / 1000);
    }
  }

  #takeSeq(session) {
    const seq = this.#nextSeq.get(session) ?? 1;
    this.#nextSeq.set(session, seq + 1);
    return seq;
  }

  // ---- one call

  #context(session_key, session_seq) {
    return {
      request_id: `request-${++this.#requests}`,
      function_id: this.id,
      version: 1,
      session_key,
      session_seq,
      attempt: 1,
      deadline_ms: Date.now() + this.#timeout,
      traceparent: null,
    };
  }

  async #run(event, context) {
    const session = context.session_key === null ? null : this.keysOf(context.session_key);
    const shared = { function: this.#functionKeys, session: this.keysOf(DEFAULT_SESSION) };
    const log = session === null ? [] : this.eventsOf(context.session_key);
    const call = new HarnessCall(this.#limits, this.clock, shared, session, log, event, context);
    await storage.run(call, () => this.#ask(call));
    const { head, values } = resultOf(call);
    const { status, error = null, ...left } = JSON.parse(head);
    if (session !== null && (error === null || this.#keeps)) session.commit(call.changes());
    if (error === null) this.#keep(log, left, values.slice(1));
    call.end();
    const answer = {
      request_id: context.request_id,
      session_key: context.session_key,
      session_seq: context.session_seq,
      attempts: context.attempt,
      status: error === null ? 'succeeded' : 'failed',
      status_code: error === null ? status : 500,
      body: error === null ? JSON.parse(values[0]) : null,
      error,
    };
    if (error !== null) answer.exception = call.outcome === FAILED ? call.value : new TypeError(error.message);
    return answer;
  }

  // What the Result of a call leaves besides its state: behind the values that it wrote, events, then payloads that it sent.
  #keep(log, { writes = [], events = 0, sends = [] }, values) {
    const rest = values.slice(writes.length).map((text) => JSON.parse(text));
    for (const event of rest.splice(0, events)) log.push({ ...event, seq: log.length + 1, version: 1 });
    sends.forEach(([fn, session, delay_ms], i) => {
      this.sent.push({ function: fn, session, payload: rest[i], delay: delay_ms / 1000 });
    });
  }

  async #ask(call) {
    try {
      call.settle(RETURNED, await (0, this.#handle)(call.event(), call.state, call.context));
    } catch (error) {
      call.settle(FAILED, error);
    }
    // Operations that nobody awaits count too.
    await nextTurn();
  }
}

class TestSession {
  constructor(fn, key, state) {
    this.function = fn;
    this.key = key;
    const names = Object.keys(state ?? {});
    const texts = names.map((name) => JSON.stringify(state[name]));
    if (names.length > 0) fn.keysOf(key).perform('setMany', [names, texts, 0]);
  }

  get state() {
    return this.function.keysOf(this.key).values();
  }

  get events() {
    return structuredClone(this.function.eventsOf(this.key));
  }

  async invoke(event = null) {
    return bodyOf(await this.call(event));
  }

  async call(event = null) {
    return this.function.callSession(event, this.key);
  }

  async deliver(event = null) {
    return this.function.deliver(event, this.key);
  }

  delete() {
    this.function.forget(this.key);
  }

  advance(seconds) {
    this.function.clock.advance(seconds);
  }
}

function withDefaults(what, defaults, given) {
  for (const name of Object.keys(given)) {
    if (!(name in defaults)) throw new TypeError(`${what} has no "${name}"; it has ${Object.keys(defaults).join(', ')}`);
  }
  return { ...defaults, ...given };
}

function bodyOf(answer) {
  if (answer.error !== null) throw answer.exception;
  return answer.body;
}

const testFunction = (handle, settings = {}) => new TestFunction(handle, settings);

const testSession = (handle, key = 'session', { state, ...settings } = {}) =>
  testFunction(handle, settings).session(key, state);

module.exports = { testFunction, testSession };
