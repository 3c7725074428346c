'use strict';
// NIMBUS_URL=… NIMBUS_KEY=… node adapters/examples/chat_history.js

const { NimbusChatHistory } = require('../node/chat_history');

(async () => {
  const history = new NimbusChatHistory({ app: 'shop', user: 'ann', session: 'chat-1' });
  await history.addUserMessage('Where is my parcel?');
  await history.addAIMessage('On its way.');
  for (const { type, data } of await history.getMessages(10)) console.log(`${type}: ${data.content}`);
})();
