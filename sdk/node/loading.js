'use strict';
// From the Load frame to a function that can be called: the directory, the environment, the handler.

const fs = require('fs');
const path = require('path');
const { pathToFileURL } = require('url');
const { describe } = require('./failure');
const { locate } = require('./location');

const EXTENSIONS = ['.js', '.cjs', '.mjs'];
const KEPT_FROM_THE_SERVER = /^(PATH|HOME|LANG|LC_.*|TZ|TMPDIR|NODE_.*)$/;

class LoadError extends Error {}

// Resolves to { handle } or { error }, the latter as it stands in Ready.
async function load({ directory, handler, env }) {
  let file;
  try {
    process.chdir(directory);
    directory = process.cwd(); // without symbolic links, as Node names files
    replaceEnvironment(env ?? {});
    const dot = handler.lastIndexOf('.');
    if (dot <= 0) throw new LoadError(`a handler is named file.symbol, as in main.handle; this one is "${handler}"`);
    file = findFile(directory, handler.slice(0, dot));
    const exported = isModule(file) ? await import(pathToFileURL(file).href) : require(file);
    return { handle: findHandle(exported, handler.slice(dot + 1), path.relative(directory, file)) };
  } catch (error) {
    const failure = describe(error);
    if (error instanceof LoadError) delete failure.trace;
    // Looking may fail too: what was thrown can be anything.
    const place =
      error instanceof LoadError ? { file: error.file } : await locate(error, directory, file).catch(() => ({}));
    return { error: { ...failure, ...place } };
  }
}

function replaceEnvironment(env) {
  for (const name of Object.keys(process.env)) {
    if (!KEPT_FROM_THE_SERVER.test(name)) delete process.env[name];
  }
  Object.assign(process.env, env);
}

function findFile(directory, stem) {
  const names = EXTENSIONS.map((extension) => stem + extension);
  const found = names.map((name) => path.resolve(directory, name)).find((file) => fs.existsSync(file));
  if (found === undefined) throw new LoadError(`there is no file ${names.join(', ')}`);
  return found;
}

// As Node tells them apart: by the extension, for .js by the nearest package.json.
function isModule(file) {
  const extension = path.extname(file);
  if (extension !== '.js') return extension === '.mjs';
  for (let folder = path.dirname(file); ; folder = path.dirname(folder)) {
    const description = path.join(folder, 'package.json');
    if (fs.existsSync(description)) return JSON.parse(fs.readFileSync(description, 'utf8')).type === 'module';
    if (folder === path.dirname(folder)) return false;
  }
}

// The function may be a member of what is exported or, as in `export default { handle }`, of its default.
function findHandle(exported, symbol, file) {
  const holders = [exported, exported?.default].filter((holder) => holder !== null && holder !== undefined);
  const holder = holders.find((candidate) => typeof candidate[symbol] === 'function');
  if (holder !== undefined) return holder[symbol].bind(holder);
  const holding = holders.find((candidate) => candidate[symbol] !== undefined);
  const error = new LoadError(
    holding === undefined
      ? `${file} does not export "${symbol}"`
      : `"${symbol}" of ${file} is no function but ${typeof holding[symbol]}`,
  );
  error.file = file;
  throw error;
}

module.exports = { load };
