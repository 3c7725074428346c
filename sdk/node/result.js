'use strict';
// The Result of a call: a head with what became of the keys, the body, and the values that are new.

const { describe } = require('./failure');
const { MAX_LENGTH } = require('./frames');
const { RETURNED } = require('./call');
const { WRITTEN } = require('./overlay');

const MOST_BYTES = MAX_LENGTH - 64 * 1024;

const UNCHANGED = { lists: '', values: [] };

class ResultTooLarge extends Error {}

// { head, values } of the frame. Never throws: what cannot be sent is an error of the function. Looking at what it
// returned or threw runs the function's code, so that comes before what it changed.
function resultOf(call) {
  const end = call.outcome === RETURNED ? returned(call.value) : failed(call.value);
  const changes = withSent(call, changesOf(call));
  const operations = call.operations.text();
  const whole = assembled(end, changes, operations);
  const bytes = bytesOf(whole);
  if (bytes <= MOST_BYTES) return whole;
  const what = `what the call returned and wrote has ${bytes} bytes; at most ${MOST_BYTES} can be sent`;
  const error = call.outcome === RETURNED ? failed(new ResultTooLarge(what)) : end;
  const kept = assembled(error, changes, operations);
  return bytesOf(kept) <= MOST_BYTES ? kept : assembled(error, UNCHANGED, operations);
}

function assembled(end, changes, operations) {
  return { head: `{${end.head}${changes.lists}${operations}}`, values: [end.body, ...changes.values] };
}

function returned(value) {
  try {
    const own = hasStatus(value);
    const status = own ? value.status_code : 200;
    const body = own ? value.body : value;
    const text = body === undefined ? 'null' : JSON.stringify(body);
    if (text === undefined) throw new TypeError(`a function cannot return a ${typeof body}`);
    return { head: `"status":${status}`, body: text };
  } catch (error) {
    return failed(error);
  }
}

function failed(thrown) {
  return { head: `"error":${JSON.stringify(describe(thrown))}`, body: '' };
}

// An object with exactly the members status_code and body says its own status.
function hasStatus(value) {
  if (value === null || typeof value !== 'object' || !('status_code' in value)) return false;
  const names = Object.keys(value);
  if (names.length !== 2 || !names.includes('status_code') || !names.includes('body')) return false;
  const status = value.status_code;
  return Number.isInteger(status) && status >= 200 && status <= 599;
}

// What the call has sent goes behind what it wrote.
function withSent(call, changes) {
  if (call.sent === null) return changes;
  return {
    lists: `${changes.lists},"sends":[${call.sent.map((one) => one.head).join(',')}]`,
    values: [...changes.values, ...call.sent.map((one) => one.text)],
  };
}

function changesOf(call) {
  const changed = call.changes();
  if (changed.length === 0 && call.events.length === 0) return UNCHANGED;
  let writes = '';
  let touches = '';
  let deletes = '';
  const values = [];
  for (const entry of changed) {
    const key = JSON.stringify(entry.key);
    if (!entry.there) {
      deletes += `,[${key},${entry.version}]`;
    } else if (entry.change === WRITTEN) {
      writes += `,[${key},${entry.version},${entry.expires}]`;
      values.push(entry.text);
    } else {
      touches += `,[${key},${entry.version},${entry.expires}]`;
    }
  }
  const list = (name, items) => (items === '' ? '' : `,"${name}":[${items.slice(1)}]`);
  const events = call.events.length === 0 ? '' : `,"events":${call.events.length}`;
  return {
    lists: list('writes', writes) + list('touches', touches) + list('deletes', deletes) + events,
    values: values.concat(call.events),
  };
}

// Exact only where it matters.
function bytesOf({ head, values }) {
  let most = 3 * head.length;
  for (const text of values) most += 4 + 3 * text.length;
  if (most <= MOST_BYTES) return most;
  return values.reduce((sum, text) => sum + 4 + Buffer.byteLength(text), Buffer.byteLength(head));
}

module.exports = { resultOf };
