'use strict';
// Integers of 64 bits with a sign: a Number where that is exact, a BigInt beyond.

const DECIMAL = /^-?(0|[1-9][0-9]*)$/;

// null if it needs more than 64 bits.
function from(exact) {
  if (BigInt.asIntN(64, exact) !== exact) return null;
  const number = Number(exact);
  return Number.isSafeInteger(number) ? number : exact;
}

// null if `text` is no decimal integer of 64 bits.
function parse(text) {
  if (text.length > 20 || !DECIMAL.test(text)) return null;
  // + 0 makes 0 of -0.
  return text.length < 16 ? Number(text) + 0 : from(BigInt(text));
}

// null on overflow.
function add(left, right) {
  if (typeof left === 'number' && typeof right === 'number') {
    const sum = left + right;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return from(BigInt(left) + BigInt(right));
}

function subtract(left, right) {
  if (typeof left === 'number' && typeof right === 'number') {
    const difference = left - right;
    if (Number.isSafeInteger(difference)) return difference;
  }
  return from(BigInt(left) - BigInt(right));
}

module.exports = { from, parse, add, subtract };
