'use strict';
// The head of Invoke. Parsing it as JSON was a quarter of what a call costs, so the form in which the server
// writes it is known here; whatever looks different, if only by a space, is parsed as the JSON it is.

const STRING = '"([ !#-\\[\\]-~]*)"'; // ASCII, nothing escaped
const NUMBER = '(0|[1-9][0-9]{0,14})';

const USUAL = new RegExp(
  `^\\{"context":\\{"request_id":${STRING},"function_id":${STRING},"version":${NUMBER}` +
    `,"session_key":(?:${STRING}|null),"session_seq":(?:${NUMBER}|null),"attempt":${NUMBER}` +
    `,"deadline_ms":${NUMBER},"traceparent":(?:${STRING}|null)\\},"now":${NUMBER}` +
    `(?:,"state":\\{"floor":${NUMBER},"complete":(true|false),"keys":(\\[[ -~]*\\])\\})?\\}$`,
);

function invokeHead(frame) {
  const parts = USUAL.exec(frame.latin1(0));
  if (parts === null) return frame.head();
  const keys = parts[12];
  return {
    context: {
      request_id: parts[1],
      function_id: parts[2],
      version: Number(parts[3]),
      session_key: parts[4] ?? null,
      session_seq: parts[5] === undefined ? null : Number(parts[5]),
      attempt: Number(parts[6]),
      deadline_ms: Number(parts[7]),
      traceparent: parts[8] ?? null,
    },
    now: Number(parts[9]),
    state: keys && { floor: Number(parts[10]), complete: parts[11] === 'true', keys: JSON.parse(keys) },
  };
}

module.exports = { invokeHead };
