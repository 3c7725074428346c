'use strict';

// An operation on state that was refused. `code` is one of the stable codes of the API; `current_version` is
// there on a version_conflict.
class StateError extends Error {
  constructor(code, message, current_version) {
    super(message);
    this.code = code;
    if (current_version !== undefined) this.current_version = current_version;
  }
}

// On the prototype, so that the stack begins with it and no instance carries it.
Object.defineProperty(StateError.prototype, 'name', { value: 'StateError', writable: true, configurable: true });

module.exports = { StateError };
