'use strict';
// Plays the server to a real instance: spawns it with a socket as descriptor 3 and speaks frames.

const { spawn } = require('child_process');
const { once } = require('events');
const fs = require('fs');
const os = require('os');
const path = require('path');

const INSTANCE = path.join(__dirname, '..', 'instance.js');
const PACKAGE = path.join(__dirname, '..', 'nimbus-state');
const TYPES = { hello: 1, load: 2, ready: 3, invoke: 4, result: 5, cancel: 6, state: 7, log: 8 };
const NAMES = Object.fromEntries(Object.entries(TYPES).map(([name, type]) => [type, name]));

// Written here once more, so that a mistake in ../frames.js is not made by both sides.
function encode(type, request, head, values = []) {
  const segments = [typeof head === 'string' ? head : JSON.stringify(head), ...values].map((segment) =>
    Buffer.from(segment),
  );
  const header = Buffer.alloc(16 + 4 * segments.length);
  header.writeUInt8(TYPES[type] ?? type, 4);
  header.writeUInt16LE(segments.length, 6);
  header.writeBigUInt64LE(BigInt(request), 8);
  segments.forEach((segment, i) => header.writeUInt32LE(segment.length, 16 + 4 * i));
  const frame = Buffer.concat([header, ...segments]);
  frame.writeUInt32LE(frame.length - 4, 0);
  return frame;
}

function decode(frame) {
  const count = frame.readUInt16LE(6);
  let at = 16 + 4 * count;
  const segments = [];
  for (let i = 0; i < count; i++) {
    const length = frame.readUInt32LE(16 + 4 * i);
    segments.push(frame.toString('utf8', at, at + length));
    at += length;
  }
  if (at !== frame.length) throw new Error('the segments of a frame do not fill it');
  const [head, ...values] = segments;
  const type = NAMES[frame.readUInt8(4)];
  return { type, request: Number(frame.readBigUInt64LE(8)), text: head, head: JSON.parse(head), values };
}

// A directory with the function's files, and the SDK where the server puts it: in a parent folder.
function deploy(files) {
  const root = fs.mkdtempSync(path.join(os.tmpdir(), 'nimbus-node-'));
  fs.mkdirSync(path.join(root, 'node_modules'));
  fs.symlinkSync(PACKAGE, path.join(root, 'node_modules', 'nimbus-state'));
  const directory = path.join(root, 'function', '1');
  fs.mkdirSync(directory, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
    fs.writeFileSync(path.join(directory, name), text);
  }
  return { root, directory, remove: () => fs.rmSync(root, { recursive: true, force: true }) };
}

// A function that does what its event says: the source of a function of `state` and `context`.
const EVALUATE = `exports.handle = (event, state, context) => eval('(' + event + ')')(state, context);`;

const LIMITS = { enabled: true, default_ttl_ms: 3600000, max_value_bytes: 65536, max_keys: 100, max_total_bytes: 0 };

class Host {
  #input = []; // chunks
  #bytes = 0; // in them
  #wholeAt = 4; // how many make the next frame whole, or tell its length
  #frames = [];
  #wanted = [];
  #lastRequest = 0;
  #function = null;

  constructor({ args = [], env = process.env } = {}) {
    this.process = spawn(process.execPath, [...args, INSTANCE], { stdio: ['ignore', 'pipe', 'pipe', 'pipe'], env });
    this.socket = this.process.stdio[3];
    this.stderr = '';
    this.process.stderr.setEncoding('utf8').on('data', (text) => (this.stderr += text));
    this.exit = once(this.process, 'close').then(([code, signal]) => {
      for (const { reject } of this.#wanted.splice(0)) reject(new Error(`the instance has ended: ${this.stderr}`));
      return { code, signal };
    });
    this.socket.on('error', () => {}); // the end of the process says it
    this.socket.on('data', (bytes) => this.#received(bytes));
  }

  // An instance that has loaded `files`, { 'main.js': text } or the text of main.js.
  static async load(files, settings = {}, options = {}) {
    const host = new Host(options);
    host.ready = await host.loadFunction(files, settings);
    if (host.ready.error) throw new Error(`it did not load: ${JSON.stringify(host.ready.error)}`);
    return host;
  }

  async loadFunction(files, { state = {}, ...settings } = {}) {
    this.#function = deploy(typeof files === 'string' ? { 'main.js': files } : files);
    this.directory = this.#function.directory;
    this.hello = (await this.next('hello')).head;
    this.loadedAt = performance.now();
    this.send('load', 0, {
      function_id: 'f',
      version: 1,
      handler: 'main.handle',
      directory: this.directory,
      env: {},
      concurrency: 16,
      memory_mb: 256,
      ...settings,
      state: { ...LIMITS, ...state },
    });
    return (await this.next('ready')).head;
  }

  async close() {
    this.socket.destroy();
    await this.exit;
    if (this.#function) this.#function.remove();
  }

  send(type, request, head, values) {
    this.socket.write(encode(type, request, head, values));
  }

  // Begins a call. `state` is { floor, complete, keys: { name: [value as text, version, expires] } } or null in
  // a stateless call; `sent` is how many of the values go along. Returns the request.
  begin(event = null, { state = {}, now = 1000000, sent = Infinity, context = {} } = {}) {
    const request = ++this.#lastRequest;
    const keys = state === null ? [] : Object.entries(state.keys ?? {});
    const head = {
      context: {
        request_id: `r${request}`,
        function_id: 'f',
        version: 1,
        session_key: state === null ? null : 's',
        session_seq: state === null ? null : request,
        attempt: 1,
        deadline_ms: 2000000,
        traceparent: null,
        ...context,
      },
      now,
    };
    if (state !== null) {
      head.state = {
        floor: state.floor ?? 0,
        complete: state.complete ?? true,
        keys: keys.map(([name, [value, version = 1, expires = 0]]) => [
          name,
          version,
          expires,
          Buffer.byteLength(value),
        ]),
      };
    }
    this.send('invoke', request, head, [JSON.stringify(event), ...keys.map(([, [value]]) => value).slice(0, sent)]);
    return request;
  }

  // A call from beginning to end: { status, body, error, writes, touches, deletes }, the lists as objects by key.
  async call(event, options) {
    return this.result(this.begin(event, options));
  }

  // The same for functions that evaluate the event, as EVALUATE does: `body` runs there, not here.
  async run(body, options) {
    return this.call(String(body), options);
  }

  async result(request) {
    return outcome(await this.next('result', request));
  }

  // The next frame of this type, and of this request if it is given.
  next(type, request) {
    const fits = (frame) => frame.type === type && (request === undefined || frame.request === request);
    const place = this.#frames.findIndex(fits);
    if (place >= 0) return Promise.resolve(this.#frames.splice(place, 1)[0]);
    return new Promise((resolve, reject) => this.#wanted.push({ fits, resolve, reject }));
  }

  // Frames that have come and that nobody asked for, in the order they came in.
  get unclaimed() {
    return this.#frames;
  }

  #received(bytes) {
    this.#input.push(bytes);
    this.#bytes += bytes.length;
    while (this.#bytes >= this.#wholeAt) {
      const input = this.#input.length === 1 ? this.#input[0] : Buffer.concat(this.#input);
      this.#input = [input];
      this.#wholeAt = 4 + (input.length < 4 ? 0 : input.readUInt32LE(0));
      if (input.length < this.#wholeAt) return;
      const frame = decode(input.subarray(0, this.#wholeAt));
      this.#input = [input.subarray(this.#wholeAt)];
      this.#bytes -= this.#wholeAt;
      this.#wholeAt = 4;
      const place = this.#wanted.findIndex(({ fits }) => fits(frame));
      if (place < 0) this.#frames.push(frame);
      else this.#wanted.splice(place, 1)[0].resolve(frame);
    }
  }
}

function outcome({ head, values: [body, ...values] }) {
  const { status, error, writes = [], touches = [], deletes = [] } = head;
  if (values.length !== writes.length) throw new Error(`${writes.length} writes with ${values.length} values`);
  const result = { writes: {}, touches: {}, deletes: {} };
  writes.forEach(([key, version, expires], i) => define(result.writes, key, [values[i], version, expires]));
  touches.forEach(([key, version, expires]) => define(result.touches, key, [version, expires]));
  deletes.forEach(([key, version]) => define(result.deletes, key, version));
  if (error === undefined) Object.assign(result, { status, body: JSON.parse(body) });
  else Object.assign(result, { error, body });
  return result;
}

function define(object, key, value) {
  Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
}

module.exports = { Host, encode, decode, deploy, EVALUATE, INSTANCE, LIMITS };
