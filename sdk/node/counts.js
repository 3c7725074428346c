'use strict';
// How often a call did what with its state, for the `operations` of its Result. Calls do few different things, so
// that looking through a short list is quicker than any table.

const { StateError } = require('./nimbus-state/error');

class OperationCounts {
  #names = null; // as in docs/protocol.md
  #counts = null;

  succeeded(scope, operation) {
    this.#add(scope === 'session' ? operation : `${scope}/${operation}`);
  }

  failed(scope, operation, error) {
    if (!(error instanceof StateError)) return; // of the function's own: its toJSON has thrown, say
    this.#add(`${scope === 'session' ? '' : `${scope}/`}${operation}:${error.code}`);
  }

  // The member of a head, after a comma; empty if there was nothing.
  text() {
    if (this.#names === null) return '';
    let text = '';
    for (let i = 0; i < this.#names.length; i++) text += `${i === 0 ? '' : ','}"${this.#names[i]}":${this.#counts[i]}`;
    return `,"operations":{${text}}`;
  }

  #add(name) {
    if (this.#names === null) {
      this.#names = [name];
      this.#counts = [1];
      return;
    }
    const place = this.#names.indexOf(name);
    if (place >= 0) {
      this.#counts[place]++;
    } else {
      this.#names.push(name);
      this.#counts.push(1);
    }
  }
}

module.exports = { OperationCounts };
