'use strict';
// The connection to the server: descriptor 3. Whole frames come out of it; frames that go in leave together
// when flush() is called.

const fs = require('fs');
const net = require('net');
const { frameBytes, readFrame, roomFor, writeFrame } = require('./frames');

const SLAB_BYTES = 256 * 1024;
const LEAST_ROOM = 16 * 1024;
const OUT_BYTES = 64 * 1024;
const NO_VALUES = [];

// Functions may replace the members of fs.
const { writeSync } = fs;

// Frames point into the memory they were read into, for as long as the calls they belong to want them. So memory
// is filled from front to back and never again: it is the garbage collector's when the last frame is gone.
class Reader {
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES);
  #begin = 0; // where the first frame that is not whole begins
  #end = 0; // where the bytes that have been read end

  // Where the next bytes are to be read into.
  room() {
    const unread = this.#end - this.#begin;
    const wanted = Math.max(frameBytes(this.#slab, this.#begin, this.#end) - unread, LEAST_ROOM);
    if (this.#slab.length - this.#end < wanted) {
      const slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, unread + wanted));
      this.#slab.copy(slab, 0, this.#begin, this.#end);
      this.#slab = slab;
      this.#begin = 0;
      this.#end = unread;
    }
    return this.#slab.subarray(this.#end);
  }

  // Hands every frame that has become whole by `bytes` more bytes to `receive`.
  read(bytes, receive) {
    this.#end += bytes;
    for (;;) {
      const size = frameBytes(this.#slab, this.#begin, this.#end);
      if (size === 0 || size > this.#end - this.#begin) return;
      const frame = readFrame(this.#slab, this.#begin, size);
      this.#begin += size;
      receive(frame);
    }
  }
}

class Channel {
  #fd;
  #socket = null;
  #out = Buffer.allocUnsafeSlow(OUT_BYTES);
  #used = 0;
  #closed = false;

  constructor(fd) {
    this.#fd = fd;
  }

  // `receive` gets each frame; `received` is called when those of one read have been handed out. Ends the process
  // when the server closes its end, or sends what is no frame: there is nobody left to talk to.
  open(receive, received) {
    const reader = new Reader();
    const read = (bytes) => {
      try {
        reader.read(bytes, receive);
        received();
      } catch (error) {
        this.#giveUp(error);
      }
    };
    this.#socket = new net.Socket({
      fd: this.#fd,
      readable: true,
      writable: true,
      onread: { buffer: () => reader.room(), callback: read },
    });
    this.#socket.on('error', (error) => this.#giveUp(error));
    this.#socket.on('end', () => {
      this.#closed = true;
      process.exit(0);
    });
    this.#socket.resume();
  }

  // Bytes that the server has not taken yet.
  get backlog() {
    return this.#socket.writableLength + this.#used;
  }

  send(type, request, head, values = NO_VALUES) {
    let text = head;
    for (let i = 0; i < values.length; i++) text += values[i];
    const room = roomFor(text, values);
    if (room > this.#out.length - this.#used) {
      this.flush();
      if (room > this.#out.length) this.#out = Buffer.allocUnsafeSlow(room);
    }
    this.#used = writeFrame(this.#out, this.#used, type, request, head, values, text);
  }

  flush() {
    if (this.#used === 0 || this.#closed) return;
    const written = this.#socket.writableLength === 0 ? this.#writeNow() : 0;
    if (written < this.#used) this.#socket.write(Buffer.from(this.#out.subarray(written, this.#used)));
    this.#used = 0;
    if (this.#out.length > OUT_BYTES) this.#out = Buffer.allocUnsafeSlow(OUT_BYTES);
  }

  // Straight to the descriptor: a third of what a write through the stream costs. The stream takes what the
  // socket has no room for.
  #writeNow() {
    try {
      return writeSync(this.#fd, this.#out, 0, this.#used);
    } catch (error) {
      if (error.code === 'EAGAIN') return 0;
      this.#giveUp(error);
    }
  }

  // Sends what there is and ends the process when it is gone.
  close(code) {
    this.flush();
    this.#socket.write(Buffer.alloc(0), () => process.exit(code));
  }

  #giveUp(error) {
    this.#closed = true;
    // The server is gone, with something unread or unsent between us: an end like any other.
    if (error.code === 'ECONNRESET' || error.code === 'EPIPE') process.exit(0);
    try {
      writeSync(2, `nimbus: the channel to the server failed: ${error.message}\n`);
    } finally {
      process.exit(1);
    }
  }
}

module.exports = { Channel };
