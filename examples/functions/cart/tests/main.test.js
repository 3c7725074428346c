// Runs without a server: node --test examples/functions/cart/tests/, where nimbus-state lies in a node_modules above.
const assert = require('node:assert/strict');
const { test } = require('node:test');
const { testFunction, testSession } = require('nimbus-state/testing');
const { handle } = require('../main.js');

test('items are added and removed', async () => {
  const alice = testSession(handle, 'alice');
  await alice.invoke({ action: 'add', item: 'apple', quantity: 2 });
  await alice.invoke({ action: 'add', item: 'pear' });
  assert.deepEqual(await alice.invoke({ action: 'remove', item: 'pear' }), { items: { apple: 2 } });
  assert.deepEqual(alice.state, { items: { apple: 2 } });
});

test('a checkout empties the cart and numbers the order', async () => {
  const fn = testFunction(handle);
  const alice = fn.session('alice', { items: { apple: 1 } });
  const bob = fn.session('bob', { items: { pear: 3 } });
  assert.deepEqual(await alice.invoke({ action: 'checkout' }), { order: 1, items: { apple: 1 } });
  assert.deepEqual(await bob.invoke({ action: 'checkout' }), { order: 2, items: { pear: 3 } });
  assert.deepEqual(alice.state, {});
  assert.equal((await alice.call({ action: 'checkout' })).status_code, 409);
});

test('a cart is forgotten an hour after its last change', async () => {
  const alice = testSession(handle);
  await alice.invoke({ action: 'add', item: 'apple' });
  alice.advance(3000);
  await alice.invoke({ action: 'add', item: 'pear' });
  alice.advance(3599);
  assert.deepEqual(await alice.invoke({}), { items: { apple: 1, pear: 1 } });
  alice.advance(1);
  assert.deepEqual(await alice.invoke({}), { items: {} });
});

test('what is no action is refused', async () => {
  const { status_code, body } = await testSession(handle).call({ action: 'steal' });
  assert.equal(status_code, 400);
  assert.match(body.error, /steal/);
});
