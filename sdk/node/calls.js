'use strict';
// The calls of an instance: they begin, run side by side, and end with a Result.
//
// Each call begins in a macrotask of its own. Most functions wait for nothing but state that is here already: such
// a call is over, down to its last microtask, before the next one begins, and so it is plain whose output and
// whose unhandled rejections there are. The global `state` must never be mistaken, not even for work that
// outlives its call: functions that use it pay for AsyncLocalStorage, which makes every promise dearer.

const { AsyncLocalStorage } = require('async_hooks');
const { Call, RUNNING, RETURNED, FAILED } = require('./call');
const { RESULT, STATE } = require('./frames');
const { resultOf } = require('./result');

// Functions may replace the global one.
const { setImmediate } = require('timers');

class Calls {
  #channel;
  #handle = null;
  #limits = null;
  #concurrency = 1;
  #beforeResult;

  #calls = new Map(); // by request: all that have come and not ended
  #waiting = []; // calls that may not begin yet
  #running = 0; // calls that have begun, or are about to, and not ended
  #settled = []; // calls whose Result is to be sent
  #flushing = false; // a flush is to come
  #reading = false; // more frames may come before anything else happens
  #flushes = 0; // how many there have been
  #turn = null; // the call that began last since then
  #entered = null; // the call whose handler has not yet returned or awaited anything

  #storage = null;

  // `beforeResult(call)` is called when a call has ended, before its Result is sent.
  constructor(channel, beforeResult) {
    this.#channel = channel;
    this.#beforeResult = beforeResult;
  }

  start(handle, limits, concurrency) {
    this.#handle = handle;
    this.#limits = limits;
    this.#concurrency = Math.max(1, concurrency || 1);
  }

  // From now on current() is right about all code of calls that begin, whatever they do.
  trackAsynchronously() {
    this.#storage ??= new AsyncLocalStorage();
  }

  invoke(frame) {
    this.#reading = true;
    const call = new Call(frame, this.#limits, this.#ask);
    this.#calls.set(call.request, call);
    if (this.#running < this.#concurrency) this.#schedule(call);
    else this.#waiting.push(call);
  }

  reply(frame) {
    const call = this.#calls.get(frame.request);
    if (call === undefined) return;
    call.repliedAt = this.#flushes;
    call.reply(frame);
  }

  // All frames that came together have been handed over.
  received() {
    this.#reading = false;
    this.#flushLater();
  }

  // What runs cannot be stopped; what has not begun never does.
  cancel(request, reason) {
    const call = this.#calls.get(request);
    if (call === undefined) return;
    call.cancelled = reason;
    const place = this.#waiting.indexOf(call);
    if (place < 0) return;
    this.#waiting.splice(place, 1);
    this.#running++;
    this.#settle(call, FAILED, new Error(`the call was cancelled before it began: ${reason}`));
  }

  // The call that the code that asks belongs to, which may have ended; null if that is not known.
  current() {
    const stored = this.#storage === null ? undefined : this.#storage.getStore();
    if (stored !== undefined) return stored;
    if (this.#entered !== null) return this.#entered;
    // Code that runs later, of a call that began without a storage: known if there is but one.
    let only = null;
    for (const call of this.#calls.values()) {
      const active = call.outcome === RUNNING || call.busy || call === this.#turn || call.repliedAt === this.#flushes;
      if (!call.begun || call.stored || !active) continue;
      if (only !== null) return null;
      only = call;
    }
    return only;
  }

  // A promise was rejected and nobody handled it. Tells whether there is a call that fails for it.
  rejected(reason) {
    const call = this.current();
    if (call === null || call.ended) return false;
    this.#settle(call, FAILED, reason);
    return true;
  }

  // Sends what there is to send.
  flush = () => {
    this.#flushing = false;
    this.#turn = null;
    this.#flushes++;
    const settled = this.#settled;
    if (settled.length > 0) {
      this.#settled = [];
      for (let i = 0; i < settled.length; i++) {
        if (settled[i].busy) this.#settled.push(settled[i]);
        else this.#end(settled[i]);
      }
    }
    this.#channel.flush();
  };

  #schedule(call) {
    this.#running++;
    // The first one of those that came together can have the macrotask they came in.
    if (this.#reading && this.#turn === null) this.#begin(call);
    else setImmediate(this.#begin, call);
  }

  // Once for everything that happens in this turn of the event loop. Calls that came together answer together: the
  // flush is asked for when the last of them has been taken, so that all have had their turns before it.
  #flushLater() {
    if (this.#flushing || this.#reading) return;
    this.#flushing = true;
    setImmediate(this.flush);
  }

  #begin = (call) => {
    this.#turn = call;
    call.begun = true;
    if (this.#storage === null) {
      this.#run(call);
    } else {
      call.stored = true;
      this.#storage.run(call, this.#run, call);
    }
  };

  #run = (call) => {
    try {
      const handle = this.#handle;
      const event = call.event();
      this.#entered = call;
      const value = handle(event, call.state, call.context);
      this.#entered = null;
      if (value !== null && typeof value === 'object' && typeof value.then === 'function') {
        Promise.resolve(value).then(
          (result) => this.#settle(call, RETURNED, result),
          (error) => this.#settle(call, FAILED, error),
        );
      } else {
        this.#settle(call, RETURNED, value);
      }
    } catch (error) {
      this.#entered = null;
      this.#settle(call, FAILED, error);
    }
    this.#flushLater();
  };

  #settle(call, outcome, value) {
    if (call.outcome === RUNNING) {
      this.#settled.push(call);
      this.#flushLater();
    }
    call.settle(outcome, value);
  }

  #end(call) {
    const { head, values } = resultOf(call);
    call.end();
    this.#beforeResult(call);
    this.#channel.send(RESULT, call.request, head, values);
    this.#calls.delete(call.request);
    this.#running--;
    if (this.#waiting.length > 0 && this.#running < this.#concurrency) this.#schedule(this.#waiting.shift());
  }

  #ask = (call, head, values) => {
    this.#channel.send(STATE, call.request, head, values);
    this.#flushLater();
  };
}

module.exports = { Calls };
