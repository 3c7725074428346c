// Runs without a server: node --test examples/functions/game/tests/, where nimbus-state lies in a node_modules above.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testFunction, testSession } from 'nimbus-state/testing';
import { handle } from '../main.mjs';

async function started(fn = testFunction(handle)) {
  const game = fn.session('game-1');
  await game.invoke({ action: 'join', player: 'ann' });
  await game.invoke({ action: 'join', player: 'ben' });
  return game;
}

async function play(game, ...cells) {
  let last;
  for (const [number, cell] of cells.entries()) {
    last = await game.invoke({ action: 'move', player: number % 2 === 0 ? 'ann' : 'ben', cell });
  }
  return last;
}

test('three in a row win', async () => {
  const fn = testFunction(handle);
  const end = await play(await started(fn), 0, 3, 1, 4, 2);
  assert.equal(end.result, 'ann wins');
  assert.deepEqual(fn.state, { games: 1 });
});

test('a full board is a draw', async () => {
  assert.equal((await play(await started(), 0, 1, 2, 4, 3, 5, 7, 6, 8)).result, 'a draw');
});

test('a move out of turn is refused and changes nothing', async () => {
  const game = await started();
  const before = game.state;
  const { status_code, body } = await game.call({ action: 'move', player: 'ben', cell: 0 });
  assert.equal(status_code, 409);
  assert.equal(body.error, "it is ann's turn");
  assert.deepEqual(game.state, before);
});

test('a third player finds no seat, and a taken cell is taken', async () => {
  const game = await started();
  assert.equal((await game.call({ action: 'join', player: 'eve' })).status_code, 409);
  await play(game, 4);
  assert.equal((await game.call({ action: 'move', player: 'ben', cell: 4 })).status_code, 400);
});

test('a game that nobody plays on is forgotten after a day', async () => {
  const game = testSession(handle, 'game-2', { state_config: { default_ttl: 86400 } });
  await game.invoke({ action: 'join', player: 'ann' });
  game.advance(86400);
  assert.deepEqual((await game.invoke({})).players, []);
});
