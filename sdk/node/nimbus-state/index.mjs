import api from './index.js';

export const { state, State, StateError, events, log, send } = api;
