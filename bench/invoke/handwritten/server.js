'use strict';
// What people write today: HTTP, a session's hash in Redis, one script per call. With appendfsync always Redis has
// synced before it answers, so this too answers only what is durable; it keeps no order, no versions and no limits.

const http = require('http');
const Redis = require('ioredis');

const redis = new Redis({ host: '127.0.0.1', port: Number(process.env.REDIS_PORT) });

redis.defineCommand('increment', {
  numberOfKeys: 2,
  lua: `local n = redis.call('HINCRBY', KEYS[1], 'n', 1)
        redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
        return n`,
});
redis.defineCommand('five', {
  numberOfKeys: 2,
  lua: `for i = 0, 4 do redis.call('HSET', KEYS[1], 'step' .. i, ARGV[2]) end
        redis.call('ZADD', KEYS[2], ARGV[1], KEYS[1])
        return 5`,
});

async function answer(operation, session) {
  const now = Date.now();
  if (operation === 'five') return redis.five(`session:${session}`, 'sessions', now, now);
  return redis.increment(`session:${session}`, 'sessions', now);
}

const server = http.createServer((request, response) => {
  const [, operation, session] = request.url.split('/');
  request.resume();
  answer(operation, session).then(
    (value) => {
      const body = String(value);
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
      response.end(body);
    },
    (error) => {
      response.writeHead(500);
      response.end(error.message);
    },
  );
});
server.listen(Number(process.env.PORT), '127.0.0.1', () => console.log('ready'));
