'use strict';
// The state API. It says what a valid call of each operation is; how the operation is carried out is the
// business of the space that the call keeps for the scope: see ../overlay.js and ../remote.js. The call counts.
//
// Every method is `async`: its body runs to the end when it is called, so that an operation whose promise
// nobody awaits still counts, and whatever it throws is a rejection.

const { StateError } = require('./error');
const int64 = require('./int64');

const invalid = (message) => new StateError('invalid_argument', message);

const PLAIN_KEY = /^[\x20-\x7e]{1,256}$/;
const CONTROL = /[\x00-\x1f\x7f-\x9f]/;
const LONE_SURROGATE = /\p{Surrogate}/u;

function checkKey(key) {
  if (typeof key !== 'string') throw invalid(`a key is a string, not ${key === null ? 'null' : typeof key}`);
  if (PLAIN_KEY.test(key)) return key;
  if (key === '' || Buffer.byteLength(key) > 256) throw invalid('a key has 1 to 256 bytes of UTF-8');
  if (CONTROL.test(key)) throw invalid('a key holds no control characters');
  if (LONE_SURROGATE.test(key)) throw invalid('a key is text that UTF-8 can say; this one holds half a surrogate pair');
  return key;
}

function checkTtl(ttl) {
  if (ttl === -1 || (ttl >= 0 && Number.isFinite(ttl))) return ttl;
  throw invalid('a ttl is a number of seconds, 0 for the default or -1 for never');
}

function checkVersion(version) {
  if (version === undefined || (Number.isSafeInteger(version) && version >= 0)) return version;
  throw invalid('a version is an integer, 0 if the key must not be there, or left out');
}

function checkPattern(pattern) {
  if (typeof pattern !== 'string') throw invalid('a pattern is a string');
  if (LONE_SURROGATE.test(pattern)) throw invalid('a pattern is text that UTF-8 can say');
  return pattern;
}

function checkDelta(delta) {
  if (Number.isSafeInteger(delta)) return delta;
  if (typeof delta === 'bigint' || Number.isInteger(delta)) {
    const exact = int64.from(BigInt(delta));
    if (exact !== null) return exact;
  }
  throw invalid('a delta is an integer of 64 bits with a sign');
}

function toJson(key, value) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    const why = error instanceof Error ? error.message : 'its toJSON threw';
    throw invalid(`the value of "${key}" cannot be made JSON: ${why}`);
  }
  if (text === undefined) throw invalid(`the value of "${key}" cannot be made JSON: it is ${typeof value}`);
  return text;
}

// The call that runs here and now, or null. An instance puts its own in its place.
let currentCall = () => null;
let bind;

class State {
  #call = null; // null: whichever call runs when an operation is called
  #scope = 'session';

  static {
    bind = (call, scope) => {
      const state = new State();
      state.#call = call;
      state.#scope = scope;
      return state;
    };
  }

  static session() {
    return bind(null, 'session');
  }
  static function() {
    return bind(null, 'function');
  }
  static invocation() {
    return bind(null, 'invocation');
  }

  session() {
    return bind(this.#call, 'session');
  }
  function() {
    return bind(this.#call, 'function');
  }
  invocation() {
    return bind(this.#call, 'invocation');
  }

  async get(key, fallback = null) {
    return this.#perform('get', (space) => space.get(checkKey(key), fallback));
  }

  async get_with_version(key) {
    return this.#perform('get_with_version', (space) => space.getWithVersion(checkKey(key)));
  }

  async set(key, value, ttl = 0) {
    return this.#perform('set', (space) => space.set(checkKey(key), toJson(key, value), checkTtl(ttl)));
  }

  async set_with_version(key, value, version = undefined, ttl = 0) {
    return this.#perform('set_with_version', (space) =>
      space.setWithVersion(checkKey(key), toJson(key, value), checkVersion(version), checkTtl(ttl)),
    );
  }

  async delete(key) {
    return this.#perform('delete', (space) => space.delete(checkKey(key)));
  }

  async incr(key, delta = 1) {
    return this.#perform('incr', (space) => space.incr(checkKey(key), checkDelta(delta)));
  }

  async decr(key, delta = 1) {
    return this.#perform('decr', (space) => space.decr(checkKey(key), checkDelta(delta)));
  }

  async exists(key) {
    return this.#perform('exists', (space) => space.exists(checkKey(key)));
  }

  async keys(pattern = '*') {
    return this.#perform('keys', (space) => space.keys(checkPattern(pattern)));
  }

  async expire(key, ttl) {
    return this.#perform('expire', (space) => {
      if (!(checkTtl(ttl) > 0)) throw invalid('expire needs a ttl above 0; persist makes a key stay');
      return space.expire(checkKey(key), ttl);
    });
  }

  async ttl(key) {
    return this.#perform('ttl', (space) => space.ttl(checkKey(key)));
  }

  async persist(key) {
    return this.#perform('persist', (space) => space.persist(checkKey(key)));
  }

  async clear() {
    return this.#perform('clear', (space) => space.clear());
  }

  async get_many(keys) {
    return this.#perform('get_many', (space) => {
      if (keys === null || typeof keys !== 'object' || typeof keys[Symbol.iterator] !== 'function') {
        throw invalid('get_many takes a list of keys');
      }
      return space.getMany([...new Set(keys)].map(checkKey));
    });
  }

  async set_many(mapping, ttl = 0) {
    return this.#perform('set_many', (space) => {
      if (mapping === null || typeof mapping !== 'object' || Array.isArray(mapping)) {
        throw invalid('set_many takes an object or a Map of values by key');
      }
      const entries = mapping instanceof Map ? [...mapping] : Object.entries(mapping);
      const keys = entries.map(([key]) => checkKey(key));
      const texts = entries.map(([key, value]) => toJson(key, value));
      return space.setMany(keys, texts, checkTtl(ttl));
    });
  }

  #perform(operation, act) {
    const call = this.#call ?? currentCall();
    if (call === null) {
      throw new StateError('unavailable', 'no call is running here: state belongs to a call of a function on Nimbus');
    }
    return call.perform(this.#scope, operation, act);
  }
}

for (const name of ['get_with_version', 'set_with_version', 'get_many', 'set_many']) {
  const alias = name.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  Object.defineProperty(State.prototype, alias, Object.getOwnPropertyDescriptor(State.prototype, name));
}

module.exports = {
  State,
  // The state that a handler gets as its argument: `call` has perform(scope, operation, act), which has `act` do
  // the operation in the space of the scope, and throws if the call may not use state any more.
  stateOf: (call) => bind(call, 'session'),
  currentCall: () => currentCall(),
  // For the instance: how the global `state` finds its call.
  findCallsBy: (find) => void (currentCall = find),
  runningCall: () => currentCall(),
};
