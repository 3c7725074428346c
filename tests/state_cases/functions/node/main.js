'use strict';
// Carries out the operations a case lists: [[name, argument, …], …], with `function.` or `invocation.` before the name
// where it is not session scope. Answers for each { is: value } or { refused: code }.

const { StateError } = require('nimbus-state');

async function carryOut(state, context, name, args) {
  const [operation, scope] = name.split('.').reverse();
  if (scope === 'context') return context[operation];
  const answer = await (scope === undefined ? state : state[scope]())[operation](...args);
  return operation === 'get_with_version' ? [answer.value, answer.version] : answer;
}

exports.handle = async (event, state, context) => {
  const answers = [];
  for (const [name, ...args] of event.operations) {
    try {
      answers.push({ is: await carryOut(state, context, name, args) });
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      answers.push({ refused: error.code, current_version: error.current_version });
    }
  }
  if (event.fails) throw new Error(JSON.stringify(answers));
  return event.returns ?? answers;
};
