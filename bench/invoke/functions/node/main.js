'use strict';

async function handle(event, state) {
  if (event.operation !== 'five') return state.incr('n');
  const now = Date.now();
  for (let i = 0; i < 5; i++) await state.set(`step${i}`, now);
  return 5;
}

module.exports = { handle };
