// An API that lets every caller call so often and no more. The session is the caller.

const limit = () => Number(process.env.LIMIT ?? 5);
const windowSeconds = () => Number(process.env.WINDOW_S ?? 60);

// How many calls are left, and when there are new ones: the window begins with its first call and ends with its key.
async function take(state) {
  const calls = await state.incr('calls');
  if (calls === 1) await state.expire('calls', windowSeconds());
  return { remaining: limit() - calls, reset_s: Math.ceil(await state.ttl('calls')) };
}

exports.handle = async (event, state) => {
  const { remaining, reset_s } = await take(state);
  if (remaining < 0) {
    return { status_code: 429, body: { error: 'too many calls', retry_after_s: reset_s } };
  }
  return { answer: `hello, ${event?.name ?? 'stranger'}`, remaining, reset_s };
};
