'use strict';
// Patterns for keys: `*`, `?`, `[a-z]`, and `\` before a character that shall mean itself.
//
// `?` and `[]` match one code point. There is no negation: `!` and `^` are characters like others. A `[` that
// is never closed and a `\` at the end mean themselves; `[]` matches nothing.

const STAR = Symbol('*');

// A token is STAR or a list of ranges of code points, flat: [low, high, low, high, …].
const ANY = [0, 0x10ffff];

function tokens(pattern) {
  const characters = [...pattern].map((character) => character.codePointAt(0));
  const result = [];
  let at = 0;

  function next() {
    const escaped = characters[at] === 0x5c && at + 1 < characters.length; // '\'
    at += escaped ? 2 : 1;
    return characters[at - 1];
  }

  // The ranges of the set that begins here; null, and nothing read, if it is never closed.
  function set() {
    const begin = at;
    const ranges = [];
    while (at < characters.length) {
      if (characters[at] === 0x5d) {
        // ']'
        at++;
        return ranges;
      }
      let low = next();
      let high = low;
      if (characters[at] === 0x2d && at + 1 < characters.length && characters[at + 1] !== 0x5d) {
        // '-'
        at++;
        high = next();
        if (high < low) [low, high] = [high, low];
      }
      ranges.push(low, high);
    }
    at = begin;
    return null;
  }

  while (at < characters.length) {
    const special = String.fromCodePoint(characters[at]);
    const character = next();
    if (special === '*') result.push(STAR);
    else if (special === '?') result.push(ANY);
    else result.push((special === '[' && set()) || [character, character]);
  }
  return result;
}

function holds(ranges, character) {
  for (let i = 0; i < ranges.length; i += 2) {
    if (ranges[i] <= character && character <= ranges[i + 1]) return true;
  }
  return false;
}

// A function that tells whether a key matches. When it fails behind a star it goes back to the last star only: for
// globs an earlier one has nothing better to offer, so no pattern takes more than its length times the key's.
function matcher(pattern) {
  if (pattern === '*') return () => true;
  const wanted = tokens(pattern);
  return (key) => {
    const characters = [...key];
    let at = 0;
    let token = 0;
    let star = -1;
    let retry = 0;
    while (at < characters.length) {
      if (wanted[token] === STAR) {
        star = token++;
        retry = at;
      } else if (token < wanted.length && holds(wanted[token], characters[at].codePointAt(0))) {
        token++;
        at++;
      } else if (star >= 0) {
        token = star + 1;
        at = ++retry;
      } else {
        return false;
      }
    }
    while (wanted[token] === STAR) token++;
    return token === wanted.length;
  };
}

module.exports = { matcher };
