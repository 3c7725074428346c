'use strict';
// What a function gets from require('nimbus-state').
//
// A function may bring a copy of this package of its own. All copies in a process must speak of the same
// calls, so the instance hands out one API under a symbol that every copy finds. Asking for it also tells the
// instance that this function uses the global `state`. Outside an instance, as in a function's own unit
// tests, everything is there but no call is running.

const instance = globalThis[Symbol.for('nimbus-state')];

module.exports = instance === undefined ? require('./api') : instance();
