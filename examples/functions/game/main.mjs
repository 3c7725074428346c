// Tic-tac-toe for two. The session is the game: its moves run one at a time, in the order they came, so two players who
// press at the same moment cannot both have the turn.
import { log, state } from 'nimbus-state';

const LINES = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]];

const refuse = (status_code, error) => ({ status_code, body: { error } });

function winner(board) {
  const line = LINES.find(([a, b, c]) => board[a] !== null && board[a] === board[b] && board[a] === board[c]);
  return line === undefined ? null : board[line[0]];
}

function seat(game, player) {
  if (game.players.includes(player)) return refuse(409, `${player} is seated already`);
  if (game.players.length === 2) return refuse(409, 'both seats are taken');
  game.players.push(player);
  return null;
}

function move(game, player, cell) {
  if (game.players.length < 2) return refuse(409, 'a game needs two players');
  if (game.result !== null) return refuse(409, 'the game is over');
  if (game.players[game.turn] !== player) return refuse(409, `it is ${game.players[game.turn]}'s turn`);
  if (!Number.isInteger(cell) || game.board[cell] !== null) return refuse(400, `cell ${cell} is not free`);
  game.board[cell] = player;
  game.turn = 1 - game.turn;
  if (winner(game.board) !== null) game.result = `${player} wins`;
  else if (!game.board.includes(null)) game.result = 'a draw';
  return null;
}

export async function handle({ action = 'show', player, cell } = {}) {
  const game = await state.get('game', { players: [], board: Array(9).fill(null), turn: 0, result: null });
  if (action === 'show') return game;
  if (action !== 'join' && action !== 'move') return refuse(400, `there is no action "${action}"`);
  const refusal = action === 'join' ? seat(game, player) : move(game, player, cell);
  if (refusal !== null) return refusal;
  await state.set('game', game);
  if (game.result !== null) {
    log.info('a game has ended', { result: game.result });
    await state.function().incr('games');
  }
  return game;
}
