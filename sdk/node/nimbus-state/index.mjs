import api from './index.js';

export const { state, State, StateError, log } = api;
