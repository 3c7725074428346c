'use strict';
// State that the server keeps while the call runs: function scope, and session scope in a stateless call. Each
// operation is one State frame and its reply.

const { MAX_LENGTH } = require('./frames');
const { StateError } = require('./nimbus-state/error');
const int64 = require('./nimbus-state/int64');
const { define } = require('./overlay');

const ROOM_FOR_HEAD = 1024 * 1024;

class Remote {
  #scope;
  #ask;

  // `ask(members, values)` sends a State frame with these members in its head, a JSON text without the braces, and
  // resolves to { head, frame } of the reply or rejects with its error.
  constructor(scope, ask) {
    this.#scope = scope;
    this.#ask = ask;
  }

  async get(key, fallback) {
    const { frame } = await this.#perform('get', member('key', key));
    return frame.segments > 1 ? JSON.parse(frame.text(1)) : fallback;
  }

  async getWithVersion(key) {
    const { head, frame } = await this.#perform('get_with_version', member('key', key));
    return frame.segments > 1
      ? { value: JSON.parse(frame.text(1)), version: head.version }
      : { value: null, version: 0 };
  }

  async getMany(keys) {
    const values = {};
    if (keys.length === 0) return values;
    const { head, frame } = await this.#perform('get_many', member('keys', keys));
    head.keys.forEach((key, i) => define(values, key, JSON.parse(frame.text(i + 1))));
    return values;
  }

  async exists(key) {
    return (await this.#perform('exists', member('key', key))).head.value;
  }

  async keys(pattern) {
    return (await this.#perform('keys', member('pattern', pattern))).head.value;
  }

  async ttl(key) {
    return (await this.#perform('ttl', member('key', key))).head.value;
  }

  async set(key, text, ttl) {
    await this.#perform('set', member('key', key) + lifetime(ttl), [text]);
    return true;
  }

  async setWithVersion(key, text, version, ttl) {
    const expected = version === undefined ? '' : member('version', version);
    const { head } = await this.#perform('set_with_version', member('key', key) + lifetime(ttl) + expected, [text]);
    return head.version;
  }

  async setMany(keys, texts, ttl) {
    if (keys.length > 0) await this.#perform('set_many', member('keys', keys) + lifetime(ttl), texts);
    return true;
  }

  async incr(key, delta) {
    return this.#calculate('incr', key, delta);
  }

  async decr(key, delta) {
    return this.#calculate('decr', key, delta);
  }

  async expire(key, ttl) {
    await this.#perform('expire', member('key', key) + lifetime(ttl));
    return true;
  }

  async persist(key) {
    await this.#perform('persist', member('key', key));
    return true;
  }

  async delete(key) {
    return (await this.#perform('delete', member('key', key))).head.value;
  }

  async clear() {
    return (await this.#perform('clear', '')).head.value;
  }

  async #calculate(operation, key, delta) {
    // Not member(): JSON.stringify refuses a BigInt.
    const { head, frame } = await this.#perform(operation, `${member('key', key)},"delta":${delta}`);
    if (Number.isSafeInteger(head.value)) return head.value;
    // JSON.parse has rounded it. In a flat object `"value":` stands nowhere but before the member.
    return int64.parse(/"value"\s*:\s*(-?[0-9]+)/.exec(frame.text(0))[1]);
  }

  #perform(operation, members, values = []) {
    const bytes = values.reduce((sum, text) => sum + Buffer.byteLength(text) + 4, members.length * 3);
    if (bytes > MAX_LENGTH - ROOM_FOR_HEAD) {
      throw new StateError('too_large', `${bytes} bytes are too many for one operation`);
    }
    return this.#ask(`"scope":"${this.#scope}","operation":"${operation}"${members}`, values);
  }
}

function member(name, value) {
  return `,"${name}":${JSON.stringify(value)}`;
}

function lifetime(ttl) {
  return ttl === 0 ? '' : member('ttl', ttl);
}

module.exports = { Remote };
