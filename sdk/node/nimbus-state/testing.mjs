import harness from './testing.js';

export const { testFunction, testSession } = harness;
