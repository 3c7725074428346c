'use strict';

const { StateError } = require('./error');
const { events } = require('./events');
const { log } = require('./log');
const { send } = require('./send');
const { State } = require('./state');

module.exports = { state: State.session(), State, StateError, events, log, send };
