'use strict';
// The state of a scope while a call runs: what came with the call, and over it what the call did. Nothing here
// waits or sends; changes() says at the end what became of the keys. The rules are those of docs/protocol.md,
// "What an instance must do for session scope".
//
// Keys and values that come in here are valid: ./nimbus-state/state.js sees to that. Values are JSON texts, and are
// parsed for each get, so that what a function does with an object it got never changes the state.

const { matcher } = require('./glob');
const { StateError } = require('./nimbus-state/error');
const int64 = require('./nimbus-state/int64');

// What a call did to a key.
const UNCHANGED = 0;
const TOUCHED = 1; // only the expiry
const WRITTEN = 2; // the value too, or the key was removed

// An entry stays when its key goes: it remembers the version, and that the call did it.
class Entry {
  constructor(key, version, expires, size) {
    this.key = key;
    this.version = version;
    this.expires = expires; // Unix milliseconds, 0 if never
    this.size = size; // of the value, in bytes
    this.there = version > 0;
    this.change = UNCHANGED;
    this.text = null; // the value, null as long as nobody has needed it
    this.frame = null; // where the value came in, null if it did not come along
    this.segment = 0;
  }

  get hasValue() {
    return this.text !== null || this.frame !== null;
  }

  value() {
    if (this.text === null) this.text = this.frame.text(this.segment);
    return this.text;
  }
}

class Overlay {
  #limits;
  #clock;
  #floor;
  #entries = new Map();
  #changed = []; // entries
  #count = 0; // keys that are there
  #bytes = 0; // of their values
  #earliest = Infinity; // no key goes by expiry before this

  // `limits` is the `state` of Load, `clock.now()` the store's time.
  constructor(limits, clock, floor) {
    this.#limits = limits;
    this.#clock = clock;
    this.#floor = floor;
  }

  // Takes entries as they stand in Invoke. The values of the first ones are the segments of `frame` from
  // `segment` on. What is known of a key already is newer and stays.
  add(listed, frame, segment) {
    const values = frame.segments - segment;
    for (let i = 0; i < listed.length; i++) {
      const [key, version, expires, size] = listed[i];
      let entry = this.#entries.get(key);
      if (entry === undefined) {
        entry = new Entry(key, version, expires, size);
        this.#entries.set(key, entry);
        this.#count++;
        this.#bytes += size;
        this.#expiresAt(expires);
      }
      if (i < values) {
        entry.frame = frame;
        entry.segment = segment + i;
      }
    }
  }

  // The entry of a key that has been there, whether it is or not; undefined if nothing is known of the key.
  entry(key) {
    this.#sweep();
    return this.#entries.get(key);
  }

  // A key the server does not have. If it was in the list it has expired since, by the server's clock.
  addMissing(key) {
    const entry = this.#entries.get(key);
    if (entry === undefined) this.#entries.set(key, new Entry(key, 0, 0, 0));
    else if (entry.there && !entry.hasValue) this.#remove(entry);
  }

  get(key, fallback) {
    const entry = this.#find(key);
    return entry === null ? fallback : JSON.parse(entry.value());
  }

  getWithVersion(key) {
    const entry = this.#find(key);
    return entry === null ? { value: null, version: 0 } : { value: JSON.parse(entry.value()), version: entry.version };
  }

  getMany(keys) {
    const values = {};
    for (const key of keys) {
      const entry = this.#find(key);
      if (entry !== null) define(values, key, JSON.parse(entry.value()));
    }
    return values;
  }

  exists(key) {
    return this.#find(key) !== null;
  }

  keys(pattern) {
    this.#sweep();
    const matches = matcher(pattern);
    const keys = [];
    for (const entry of this.#entries.values()) {
      if (entry.there && matches(entry.key)) keys.push(entry.key);
    }
    return inOrderOfBytes(keys);
  }

  ttl(key) {
    const entry = this.#findOrThrow(key);
    return entry.expires === 0 ? -1 : Math.max(0, entry.expires - this.#clock.now()) / 1000;
  }

  set(key, text, ttl) {
    this.#write(key, text, this.#expiry(ttl));
    return true;
  }

  setWithVersion(key, text, version, ttl) {
    const entry = this.#find(key);
    this.#size(key, text); // is told before a conflict
    const current = entry === null ? 0 : entry.version;
    if (version !== undefined && version !== current) {
      throw new StateError('version_conflict', `"${key}" has version ${current}, expected was ${version}`, current);
    }
    return this.#write(key, text, this.#expiry(ttl)).version;
  }

  setMany(keys, texts, ttl) {
    const expires = this.#expiry(ttl);
    const entries = keys.map((key) => this.entry(key));
    const sizes = texts.map((text, i) => this.#size(keys[i], text));
    let more = 0;
    let growth = 0;
    for (let i = 0; i < keys.length; i++) {
      if (isThere(entries[i])) growth += sizes[i] - entries[i].size;
      else {
        more++;
        growth += sizes[i];
      }
    }
    this.#admit(more, growth);
    for (let i = 0; i < keys.length; i++) this.#put(entries[i], keys[i], texts[i], sizes[i], expires);
    return true;
  }

  incr(key, delta) {
    return this.#calculate(key, int64.add, delta);
  }

  decr(key, delta) {
    return this.#calculate(key, int64.subtract, delta);
  }

  expire(key, ttl) {
    this.#touch(this.#findOrThrow(key), this.#expiry(ttl));
    return true;
  }

  persist(key) {
    this.#touch(this.#findOrThrow(key), 0);
    return true;
  }

  delete(key) {
    const entry = this.#find(key);
    if (entry === null) return false;
    this.#remove(entry);
    this.#mark(entry, WRITTEN);
    return true;
  }

  clear() {
    this.#sweep();
    const before = this.#count;
    for (const entry of this.#entries.values()) {
      if (!entry.there) continue;
      this.#remove(entry);
      this.#mark(entry, WRITTEN);
    }
    return before;
  }

  // Entries of the keys the call changed: those that are gone are not `there`, those whose value is new are `written`.
  changes() {
    if (this.#changed.length > 0) this.#sweep();
    return this.#changed;
  }

  // An operation is under way. Only those that have to load are ever so: see ./partial.js.
  get busy() {
    return false;
  }

  #find(key) {
    const entry = this.entry(key);
    return isThere(entry) ? entry : null;
  }

  #findOrThrow(key) {
    const entry = this.#find(key);
    if (entry === null) throw new StateError('not_found', `there is no key "${key}"`);
    return entry;
  }

  #calculate(key, operation, delta) {
    const entry = this.#find(key);
    const before = entry === null ? 0 : int64.parse(entry.value());
    if (before === null) throw new StateError('invalid_argument', `the value of "${key}" is no integer of 64 bits`);
    const after = operation(before, delta);
    if (after === null) throw new StateError('invalid_argument', `"${key}" would need more than 64 bits`);
    this.#write(key, String(after), entry === null ? this.#expiry(0) : entry.expires);
    return after;
  }

  #write(key, text, expires) {
    const entry = this.entry(key);
    const size = this.#size(key, text);
    if (isThere(entry)) this.#admit(0, size - entry.size);
    else this.#admit(1, size);
    return this.#put(entry, key, text, size, expires);
  }

  #size(key, text) {
    const size = Buffer.byteLength(text);
    const most = this.#limits.max_value_bytes;
    if (size > most && most > 0) {
      throw new StateError('too_large', `the value of "${key}" has ${size} bytes of JSON; at most ${most} are allowed`);
    }
    return size;
  }

  // Room for `more` keys and `growth` bytes. What adds nothing is let in even where there is too much already.
  #admit(more, growth) {
    const { max_keys, max_total_bytes } = this.#limits;
    if (more > 0 && max_keys > 0 && this.#count + more > max_keys) {
      throw new StateError('quota_exceeded', `there would be more than ${max_keys} keys`);
    }
    if (growth > 0 && max_total_bytes > 0 && this.#bytes + growth > max_total_bytes) {
      throw new StateError('quota_exceeded', `the values would have more than ${max_total_bytes} bytes together`);
    }
  }

  #put(entry, key, text, size, expires) {
    if (entry === undefined) {
      entry = new Entry(key, 0, 0, 0);
      this.#entries.set(key, entry);
    }
    if (entry.there) {
      entry.version++;
      this.#bytes += size - entry.size;
    } else {
      entry.version = this.#floor + 1;
      entry.there = true;
      this.#count++;
      this.#bytes += size;
    }
    entry.text = text;
    entry.size = size;
    entry.expires = expires;
    this.#expiresAt(expires);
    this.#mark(entry, WRITTEN);
    return entry;
  }

  #touch(entry, expires) {
    entry.version++;
    entry.expires = expires;
    this.#expiresAt(expires);
    this.#mark(entry, TOUCHED);
  }

  #remove(entry) {
    entry.there = false;
    this.#count--;
    this.#bytes -= entry.size;
    if (entry.version > this.#floor) this.#floor = entry.version;
  }

  #mark(entry, change) {
    if (entry.change === UNCHANGED) this.#changed.push(entry);
    if (entry.change < change) entry.change = change;
  }

  #expiry(ttl) {
    if (ttl === -1) return 0;
    const after = ttl === 0 ? this.#limits.default_ttl_ms : Math.ceil(ttl * 1000);
    if (after === 0) return 0;
    const expires = this.#clock.now() + after;
    if (!Number.isSafeInteger(expires)) throw new StateError('invalid_argument', `a ttl of ${ttl} seconds is too long`);
    return expires;
  }

  #expiresAt(expires) {
    if (expires > 0 && expires < this.#earliest) this.#earliest = expires;
  }

  // Before anything is looked at, what has expired goes: a key that is `there` can then be relied on.
  #sweep() {
    if (this.#earliest === Infinity) return;
    const now = this.#clock.now();
    if (now < this.#earliest) return;
    this.#earliest = Infinity;
    for (const entry of this.#entries.values()) {
      if (!entry.there || entry.expires === 0) continue;
      if (entry.expires <= now) this.#remove(entry);
      else this.#expiresAt(entry.expires);
    }
  }
}

function isThere(entry) {
  return entry !== undefined && entry.there;
}

// `__proto__` is a key like others.
function define(object, key, value) {
  if (key === '__proto__')
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  else object[key] = value;
}

// JavaScript orders by UTF-16 units, which differs from the order of UTF-8 where there are surrogates.
function inOrderOfBytes(keys) {
  if (!keys.some((key) => /[\ud800-\udfff]/.test(key))) return keys.sort();
  return keys.sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
}

module.exports = { Overlay, TOUCHED, WRITTEN, define };
