'use strict';
// Frames, as docs/protocol.md has them. All numbers are little-endian:
//
//   4  length of everything behind this field
//   1  type
//   1  0
//   2  n, the number of segments
//   8  the request
//   4n the length of each segment, then the segments

const HELLO = 1;
const LOAD = 2;
const READY = 3;
const INVOKE = 4;
const RESULT = 5;
const CANCEL = 6;
const STATE = 7;
const LOG = 8;

const LENGTH_BYTES = 4;
const HEADER_BYTES = 16;
const MAX_LENGTH = 64 * 1024 * 1024;

// A frame that was read. It keeps the buffer it came in; segments become text when they are asked for.
class Frame {
  // `request` is a Number where that is exact, else a BigInt. Segment i is buffer[bounds[i], bounds[i + 1]).
  constructor(type, request, buffer, bounds) {
    this.type = type;
    this.request = request;
    this.buffer = buffer;
    this.bounds = bounds;
  }

  get segments() {
    return this.bounds.length - 1;
  }

  text(segment) {
    return this.buffer.utf8Slice(this.bounds[segment], this.bounds[segment + 1]);
  }

  // The bytes of a segment as characters: text only if they are ASCII.
  latin1(segment) {
    return this.buffer.latin1Slice(this.bounds[segment], this.bounds[segment + 1]);
  }

  head() {
    return JSON.parse(this.text(0));
  }
}

function readNumber(buffer, at) {
  return (buffer[at] | (buffer[at + 1] << 8) | (buffer[at + 2] << 16) | (buffer[at + 3] << 24)) >>> 0;
}

function writeNumber(buffer, at, number) {
  buffer[at] = number;
  buffer[at + 1] = number >>> 8;
  buffer[at + 2] = number >>> 16;
  buffer[at + 3] = number >>> 24;
}

// How many bytes the frame that begins at `at` has, the length field included; 0 if not even that is there.
function frameBytes(buffer, at, end) {
  if (end - at < LENGTH_BYTES) return 0;
  const length = readNumber(buffer, at);
  if (length > MAX_LENGTH) throw new RangeError(`a frame of ${length} bytes`);
  return LENGTH_BYTES + length;
}

// The frame of `bytes` bytes that begins at `at`. Throws if its lengths do not add up.
function readFrame(buffer, at, bytes) {
  const count = buffer[at + 6] | (buffer[at + 7] << 8);
  let position = at + HEADER_BYTES + 4 * count;
  if (bytes < HEADER_BYTES || count === 0 || position > at + bytes) {
    throw new RangeError(`a frame of ${bytes} bytes with ${count} segments`);
  }
  const bounds = [position];
  for (let i = 0; i < count; i++) bounds.push((position += readNumber(buffer, at + HEADER_BYTES + 4 * i)));
  if (position !== at + bytes) throw new RangeError('the segments of a frame do not fill it');
  const low = readNumber(buffer, at + 8);
  const high = readNumber(buffer, at + 12);
  const request = high < 0x200000 ? high * 0x100000000 + low : (BigInt(high) << 32n) | BigInt(low);
  return new Frame(buffer[at + 4], request, buffer, bounds);
}

function roomFor(text, values) {
  // Short text is not worth measuring: no UTF-16 unit needs more than three bytes.
  const bytes = text.length < 16384 ? 3 * text.length : Buffer.byteLength(text);
  return HEADER_BYTES + 4 * (1 + values.length) + bytes;
}

// Writes a frame whose segments are `head` and `values`; `text` is all of them, one after another. The buffer must
// have roomFor(text, values). Returns where the frame ends.
function writeFrame(buffer, at, type, request, head, values, text) {
  const count = 1 + values.length;
  const begin = at + HEADER_BYTES + 4 * count;
  // All text in one go: each crossing into native code costs more than the bytes it moves.
  const written = buffer.utf8Write(text, begin);
  const ascii = written === text.length;
  writeNumber(buffer, at, begin + written - at - LENGTH_BYTES);
  buffer[at + 4] = type;
  buffer[at + 5] = 0;
  buffer[at + 6] = count;
  buffer[at + 7] = count >>> 8;
  if (typeof request === 'number') {
    writeNumber(buffer, at + 8, request >>> 0);
    writeNumber(buffer, at + 12, Math.floor(request / 0x100000000));
  } else {
    buffer.writeBigUInt64LE(request, at + 8);
  }
  writeNumber(buffer, at + HEADER_BYTES, ascii ? head.length : Buffer.byteLength(head));
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    writeNumber(buffer, at + HEADER_BYTES + 4 * (i + 1), ascii ? value.length : Buffer.byteLength(value));
  }
  return begin + written;
}

module.exports = {
  HELLO,
  LOAD,
  READY,
  INVOKE,
  RESULT,
  CANCEL,
  STATE,
  LOG,
  HEADER_BYTES,
  MAX_LENGTH,
  Frame,
  frameBytes,
  readFrame,
  roomFor,
  writeFrame,
};
