'use strict';
// Where in the function's code a load failed: { file, line } as far as it is known, `file` relative to the
// function's directory.

const fs = require('fs');
const path = require('path');
const { fileURLToPath } = require('url');

const HEADER = /^((?:file:\/\/)?\/.+):(\d+)$/; // what Node puts before the stack of some syntax errors
const FRAME = /^ +at .*?((?:file:\/\/)?\/[^()]*):(\d+):\d+\)?$/;
const IMPORTED_FROM = / imported from (\/.*)$/m;
const RELATIVE_IMPORT = /\b(?:import|from)\s*\(?\s*(?:'(\.[^'\n]*)'|"(\.[^"\n]*)")/g;

async function locate(error, directory, file) {
  const stack = error instanceof Error && typeof error.stack === 'string' ? error.stack : '';
  const lines = stack.split('\n');
  const places = [HEADER.exec(lines[0]), ...lines.map((line) => FRAME.exec(line))];
  for (const place of places) {
    const inside = place && relative(directory, place[1]);
    if (inside) return { file: inside, line: Number(place[2]) };
  }
  const importer = IMPORTED_FROM.exec(stack);
  if (importer) return { file: relative(directory, importer[1]) };
  if (error instanceof SyntaxError) {
    const culprit = await malformedModule(file);
    if (culprit) return { file: relative(directory, culprit), line: lineOf(error) };
  }
  return {};
}

// undefined if it is not of the function.
function relative(directory, name) {
  const inside = path.relative(directory, name.startsWith('file:') ? fileURLToPath(name) : path.resolve(name));
  return inside === '' || inside.startsWith('..') ? undefined : inside;
}

// V8 knows where a text failed to parse; for ES modules Node says it to nobody but the inspector.
function lineOf(error) {
  const name = '__nimbus_load_error';
  let line;
  try {
    const { Session } = require('inspector');
    const session = new Session();
    session.connect();
    globalThis[name] = error;
    session.post('Runtime.evaluate', { expression: name }, (_, { result }) => {
      session.post('Runtime.getExceptionDetails', { errorObjectId: result.objectId }, (_, { exceptionDetails }) => {
        if (exceptionDetails.lineNumber >= 0) line = exceptionDetails.lineNumber + 1;
      });
    });
    session.disconnect();
  } catch {
    // A Node without an inspector: the line stays unknown.
  } finally {
    delete globalThis[name];
  }
  return line;
}

// The first of `file` and the modules it imports, directly or not, that is malformed.
async function malformedModule(file) {
  const files = [file];
  for (const name of files) {
    let source;
    try {
      source = fs.readFileSync(name, 'utf8');
    } catch {
      continue;
    }
    if (await isMalformed(source)) return name;
    for (const [, single, double] of source.matchAll(RELATIVE_IMPORT)) {
      const imported = path.resolve(path.dirname(name), single ?? double);
      if (!files.includes(imported)) files.push(imported);
    }
  }
  return undefined;
}

// Parses without running: the import at the end leads nowhere, and nothing runs before all imports are found.
async function isMalformed(source) {
  const probe = Buffer.from(`${source}\n;import './nowhere';`).toString('base64');
  try {
    await import(`data:text/javascript;base64,${probe}`);
  } catch (error) {
    return error instanceof SyntaxError;
  }
  return false;
}

module.exports = { locate };
