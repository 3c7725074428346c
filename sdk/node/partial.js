'use strict';
// The overlay of a session of which not everything came with the call: values, or even names, are loaded when an
// operation needs them. An operation that has to wait makes all later ones wait behind it, so that they take
// effect in the order they were called in.

const { Overlay } = require('./overlay');

class PartialOverlay extends Overlay {
  #complete;
  #load;
  #last = null; // the end of the last operation that is under way

  // `load(keys)` asks the server for entries with values, or for the list of all without if `keys` is undefined.
  // It resolves to { listed, frame }.
  constructor(limits, clock, { floor, complete }, load) {
    super(limits, clock, floor);
    this.#complete = complete;
    this.#load = load;
  }

  get busy() {
    return this.#last !== null;
  }

  static {
    const needs = {
      get: (overlay, key) => overlay.#values([key]),
      getWithVersion: (overlay, key) => overlay.#values([key]),
      getMany: (overlay, keys) => overlay.#values(keys),
      exists: (overlay, key) => overlay.#name(key),
      ttl: (overlay, key) => overlay.#name(key),
      expire: (overlay, key) => overlay.#name(key),
      persist: (overlay, key) => overlay.#name(key),
      delete: (overlay, key) => overlay.#name(key),
      keys: (overlay) => overlay.#names(),
      clear: (overlay) => overlay.#names(),
      // Whether a new key fits in can only be told when all are known.
      set: (overlay) => overlay.#names(),
      setWithVersion: (overlay) => overlay.#names(),
      setMany: (overlay) => overlay.#names(),
      incr: (overlay, key) => overlay.#namesAndValue(key),
      decr: (overlay, key) => overlay.#namesAndValue(key),
    };
    for (const [operation, need] of Object.entries(needs)) {
      const carryOut = Overlay.prototype[operation];
      this.prototype[operation] = function (...args) {
        return this.#inTurn(
          () => need(this, ...args),
          () => carryOut.apply(this, args),
        );
      };
    }
  }

  // Each of these sees to it that something is here: null if it is, else a promise.

  #values(keys) {
    const wanted = keys.filter((key) => {
      const entry = this.entry(key);
      return entry === undefined ? !this.#complete : entry.there && !entry.hasValue;
    });
    return wanted.length === 0 ? null : this.#fetch(wanted);
  }

  #name(key) {
    return this.#complete || this.entry(key) !== undefined ? null : this.#fetch([key]);
  }

  #names() {
    return this.#complete ? null : this.#fetch(undefined);
  }

  #namesAndValue(key) {
    const names = this.#names();
    return names === null ? this.#values([key]) : names.then(() => this.#values([key]));
  }

  async #fetch(keys) {
    const { listed, frame } = await this.#load(keys);
    this.add(listed, frame, 1);
    if (keys === undefined) this.#complete = true;
    else for (const key of keys) this.addMissing(key);
  }

  #inTurn(need, operation) {
    const attempt = () => {
      const needed = need();
      return needed === null ? operation() : needed.then(operation);
    };
    let result;
    if (this.#last === null) {
      result = attempt();
      if (!(result instanceof Promise)) return result;
    } else {
      result = this.#last.then(attempt);
    }
    const end = result.then(noop, noop).then(() => {
      if (this.#last === end) this.#last = null;
    });
    this.#last = end;
    return result;
  }
}

function noop() {}

module.exports = { PartialOverlay };
