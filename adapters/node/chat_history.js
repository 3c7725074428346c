'use strict';
// The history of a chat in Nimbus, with the methods of LangChain's BaseListChatMessageHistory.
//
//   const history = new NimbusChatHistory({ app: 'shop', user: 'ann', session: 'chat-1' });
//   await history.addUserMessage('hello');
//   const messages = await history.getMessages();
//
// Messages are what LangChain's are, with toDict(), or plain objects such as { type: 'human', data: { content: 'hello' } }. `revive`
// makes what getMessages() gives of the stored form: mapStoredMessagesToChatMessages of @langchain/core, for example.

class NimbusError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.code = problem.code;
  }
}

class NimbusChatHistory {
  #base;
  #session;
  #key;
  #revive;

  constructor({ app, user, session, url = process.env.NIMBUS_URL || 'http://127.0.0.1:8787', key = process.env.NIMBUS_KEY, revive }) {
    this.#base = `${url}/api/v1/apps/${encodeURIComponent(app)}/users/${encodeURIComponent(user)}/sessions`;
    this.#session = session;
    this.#key = key;
    this.#revive = revive ?? ((messages) => messages);
  }

  // The newest `count` messages, oldest first; all of them unless it is given.
  async getMessages(count = Infinity) {
    const stored = [];
    let cursor = '';
    do {
      const limit = Math.min(1000, count - stored.length);
      const page = await this.#call('GET', `/events?order=desc&limit=${limit}${cursor}`).catch(absentAs({ items: [], next_cursor: null }));
      stored.push(...page.items.map((event) => event.content));
      cursor = page.next_cursor === null ? null : `&cursor=${page.next_cursor}`;
    } while (cursor !== null && stored.length < count);
    return this.#revive(stored.reverse());
  }

  // Appended together, or none. `id` makes it safe to try again.
  async addMessages(messages, { id } = {}) {
    const events = messages.map((message, i) => {
      const content = typeof message.toDict === 'function' ? message.toDict() : message;
      return { content, author: content.type ?? 'message', ...(id === undefined ? {} : { id: `${id}/${i}` }) };
    });
    try {
      await this.#call('POST', '/events', events);
    } catch (error) {
      if (error.status !== 404) throw error;
      await this.#make();
      await this.#call('POST', '/events', events);
    }
  }

  async addMessage(message) {
    await this.addMessages([message]);
  }

  async addUserMessage(text) {
    await this.addMessage({ type: 'human', data: { content: text } });
  }

  async addAIMessage(text) {
    await this.addMessage({ type: 'ai', data: { content: text } });
  }

  async clear() {
    await this.#call('DELETE', '').catch(absentAs(null));
  }

  async #make() {
    try {
      await this.#request('POST', this.#base, { id: this.#session });
    } catch (error) {
      if (error.status !== 409) throw error; // somebody else has
    }
  }

  #call(method, path, body) {
    return this.#request(method, `${this.#base}/${encodeURIComponent(this.#session)}${path}`, body);
  }

  async #request(method, url, body) {
    const headers = this.#key ? { Authorization: `Bearer ${this.#key}` } : {};
    const response = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new NimbusError(response.status, text ? JSON.parse(text) : {});
    return text ? JSON.parse(text) : null;
  }
}

function absentAs(value) {
  return (error) => {
    if (error.status === 404) return value;
    throw error;
  };
}

module.exports = { NimbusChatHistory, NimbusError };
