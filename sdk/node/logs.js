'use strict';
// What the function prints goes to the server as Log frames, with the call that printed it. Lines leave at once
// rather than with the next batch: those printed last before a call hangs or crashes are the ones that are wanted.

const { StringDecoder } = require('string_decoder');
const { Writable } = require('stream');
const { LOG } = require('./frames');

const MOST_TEXT = 1024 * 1024; // of one frame; a line that is longer is cut
const MOST_BACKLOG = 16 * 1024 * 1024;

// In place of process.stdout or process.stderr.
class LogStream extends Writable {
  #head;
  #channel;
  #currentCall;
  #decoder = new StringDecoder('utf8');
  #unfinished = new Map(); // the beginning of a line, by call; null for what belongs to no call
  #dropped = 0;

  constructor(name, descriptor, channel, currentCall) {
    super({ decodeStrings: false });
    this.fd = descriptor;
    this.#head = `{"stream":"${name}"}`;
    this.#channel = channel;
    this.#currentCall = currentCall;
  }

  _write(chunk, encoding, done) {
    const bytes = typeof chunk === 'string' && encoding !== 'utf8' ? Buffer.from(chunk, encoding) : chunk;
    this.#print(typeof bytes === 'string' ? bytes : this.#decoder.write(bytes));
    done();
  }

  // Like the real ones, it stays open whatever the function does: the next call prints too.
  end(chunk, encoding, done) {
    if (typeof chunk !== 'function' && chunk !== undefined && chunk !== null) this.write(chunk, encoding);
    for (const callback of [chunk, encoding, done]) if (typeof callback === 'function') process.nextTick(callback);
    return this;
  }
  destroy() {
    return this;
  }

  // Sends the line that `call` began and did not end.
  finish(call) {
    if (this.#unfinished.size === 0) return;
    const rest = this.#unfinished.get(call);
    if (rest === undefined) return;
    this.#unfinished.delete(call);
    this.#send(call, `${rest}\n`);
  }

  finishAll() {
    for (const call of [...this.#unfinished.keys()]) this.finish(call);
  }

  #print(text) {
    const call = this.#currentCall();
    let all = (this.#unfinished.get(call) ?? '') + text;
    let end = all.lastIndexOf('\n') + 1;
    if (all.length - end > MOST_TEXT) {
      all += '\n';
      end = all.length;
    }
    if (end < all.length) this.#unfinished.set(call, all.slice(end));
    else this.#unfinished.delete(call);
    for (let at = 0; at < end;) {
      const cut = end - at <= MOST_TEXT ? end : all.lastIndexOf('\n', at + MOST_TEXT - 1) + 1;
      const next = cut > at ? cut : at + MOST_TEXT;
      this.#send(call, cut > at ? all.slice(at, next) : `${all.slice(at, next)}\n`);
      at = next;
    }
    if (end > 0) this.#channel.flush();
  }

  #send(call, lines) {
    // A function that prints without end, faster than the server reads, must not fill the memory.
    if (this.#channel.backlog > MOST_BACKLOG) {
      this.#dropped += lines.length;
      return;
    }
    const request = call === null ? 0 : call.request;
    if (this.#dropped > 0) {
      this.#channel.send(LOG, request, this.#head, [`… ${this.#dropped} characters were dropped: too much at once\n`]);
      this.#dropped = 0;
    }
    this.#channel.send(LOG, request, this.#head, [lines]);
  }
}

// Returns the two streams that have taken the place of process.stdout and process.stderr; console writes there too.
function captureOutput(channel, currentCall) {
  return ['stdout', 'stderr'].map((name, i) => {
    const stream = new LogStream(name, i + 1, channel, currentCall);
    Object.defineProperty(process, name, { value: stream, configurable: true, enumerable: true, writable: true });
    return stream;
  });
}

module.exports = { captureOutput };
