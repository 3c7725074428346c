'use strict';
// The rules of session scope once more, as plainly as they can be written: a model to compare the SDK with. It keeps
// all values as parsed JSON, looks at every key for every question, and knows no optimisation.

const bytes = (value) => Buffer.byteLength(JSON.stringify(value));

class Model {
  // `keys`: { name: { value, version, expires } }. The clock stands still: random operations do not race it.
  constructor(limits, now, floor, keys) {
    Object.assign(this, { limits, now, floor, entries: new Map(Object.entries(keys)), touched: new Map() });
    for (const [key, { expires, version }] of [...this.entries]) {
      if (expires !== 0 && expires <= now) {
        this.entries.delete(key);
        this.floor = Math.max(this.floor, version);
      }
    }
  }

  perform(operation, args) {
    try {
      return { value: this[operation](...args) };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return { code: error.code, current_version: error.current_version };
    }
  }

  get(key, fallback) {
    return this.entries.has(key) ? this.entries.get(key).value : fallback;
  }
  get_with_version(key) {
    const { value, version } = this.entries.get(key) ?? { value: null, version: 0 };
    return { value, version };
  }
  set(key, value, ttl) {
    this.#set({ [key]: value }, this.#expires(ttl));
    return true;
  }
  set_with_version(key, value, version, ttl) {
    this.#checkSizes([value]);
    const current = this.entries.get(key)?.version ?? 0;
    if (version !== undefined && version !== current) throw new Refusal('version_conflict', current);
    this.#set({ [key]: value }, this.#expires(ttl));
    return this.entries.get(key).version;
  }
  set_many(mapping, ttl) {
    this.#set(mapping, this.#expires(ttl));
    return true;
  }
  get_many(keys) {
    return Object.fromEntries(
      keys.filter((key) => this.entries.has(key)).map((key) => [key, this.entries.get(key).value]),
    );
  }
  delete(key) {
    if (!this.entries.has(key)) return false;
    const { version } = this.entries.get(key);
    this.floor = Math.max(this.floor, version);
    this.entries.delete(key);
    this.touched.set(key, { deleted: version });
    return true;
  }
  clear() {
    const all = [...this.entries.keys()];
    all.forEach((key) => this.delete(key));
    return all.length;
  }
  incr(key, delta) {
    const before = this.entries.get(key);
    if (before !== undefined && !Number.isInteger(before.value)) throw new Refusal('invalid_argument');
    const after = (before?.value ?? 0) + delta;
    this.#set({ [key]: after }, before ? before.expires : this.#expires(0));
    return after;
  }
  decr(key, delta) {
    return this.incr(key, -delta);
  }
  exists(key) {
    return this.entries.has(key);
  }
  // Patterns here are a prefix and a star.
  keys(pattern) {
    const found = [...this.entries.keys()].filter((key) => key.startsWith(pattern.slice(0, -1)));
    return found.sort((left, right) => Buffer.compare(Buffer.from(left), Buffer.from(right)));
  }
  expire(key, ttl) {
    return this.#touch(key, this.#expires(ttl));
  }
  persist(key) {
    return this.#touch(key, 0);
  }

  // As Host.call has them, but that expiries are how long from now.
  changes() {
    const result = { writes: {}, touches: {}, deletes: {} };
    for (const [key, { deleted, written }] of this.touched) {
      const { value, version, expires } = this.entries.get(key) ?? {};
      if (!this.entries.has(key)) result.deletes[key] = deleted;
      else if (written) result.writes[key] = [JSON.stringify(value), version, expires];
      else result.touches[key] = [version, expires];
    }
    return result;
  }

  #expires(ttl) {
    if (ttl === -1) return 0;
    const after = ttl === 0 ? this.limits.default_ttl_ms : ttl * 1000;
    return after === 0 ? 0 : this.now + after;
  }

  #checkSizes(values) {
    if (values.some((value) => bytes(value) > this.limits.max_value_bytes)) throw new Refusal('too_large');
  }

  #set(mapping, expires) {
    const entries = Object.entries(mapping);
    const total = (all) => [...all.values()].reduce((sum, { value }) => sum + bytes(value), 0);
    this.#checkSizes(Object.values(mapping));
    const after = new Map(this.entries);
    for (const [key, value] of entries) {
      const version = this.entries.has(key) ? this.entries.get(key).version + 1 : this.floor + 1;
      after.set(key, { value, version, expires });
    }
    const { max_keys, max_total_bytes } = this.limits;
    if (after.size > max_keys && after.size > this.entries.size) throw new Refusal('quota_exceeded');
    if (total(after) > max_total_bytes && total(after) > total(this.entries)) throw new Refusal('quota_exceeded');
    this.entries = after;
    for (const [key] of entries) this.touched.set(key, { written: true });
  }

  #touch(key, expires) {
    const entry = this.entries.get(key);
    if (entry === undefined) throw new Refusal('not_found');
    this.entries.set(key, { ...entry, version: entry.version + 1, expires });
    if (!this.touched.has(key)) this.touched.set(key, {});
    return true;
  }
}

class Refusal extends Error {
  constructor(code, current_version) {
    super(code);
    Object.assign(this, { code, current_version });
  }
}

module.exports = { Model };
