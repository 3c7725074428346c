const { state } = require('nimbus-state');

const AN_HOUR = 3600;

exports.handle = async ({ action = 'show', item, quantity = 1 } = {}) => {
  const items = await state.get('items', {});
  switch (action) {
    case 'add':
      items[item] = (items[item] ?? 0) + quantity;
      break;
    case 'remove':
      delete items[item];
      break;
    case 'checkout': {
      if (Object.keys(items).length === 0) return { status_code: 409, body: { error: 'the cart is empty' } };
      const order = await state.function().incr('orders');
      await state.delete('items');
      return { order, items };
    }
    case 'show':
      return { items };
    default:
      return { status_code: 400, body: { error: `there is no action "${action}"` } };
  }
  await state.set('items', items, AN_HOUR);
  return { items };
};
