'use strict';

const { StateError } = require('./error');
const { log } = require('./log');
const { State } = require('./state');

module.exports = { state: State.session(), State, StateError, log };
