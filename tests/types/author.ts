// What the author of a function sees of our types. A line that must be wrong says so; tsc refuses it if it is not.

import { State, StateError, log, state } from 'nimbus-state';
import type { Context, Handler } from 'nimbus-state';
import { testFunction, testSession } from 'nimbus-state/testing';
import type { Answer, TestSession } from 'nimbus-state/testing';

interface Visit {
  name: string;
}

const handle: Handler<Visit, { visits: number | bigint }> = async (event, state, context: Context) => {
  const visits = await state.incr('visits');
  const name: string | null = await state.get<string>('name');
  const version: number = await state.set_with_version('name', event.name, 0, 1.5);
  const keys: string[] = await State.function().keys('cart:*');
  log.info('called', { name, version, keys, seq: context.session_seq });
  return { visits };
};

async function wrong(): Promise<void> {
  // @ts-expect-error a key is text
  await state.incr(5);
  // @ts-expect-error a ttl is a number
  await state.set('a', 1, 'soon');
  // @ts-expect-error there is no such operation
  await state.lookup('a');
}

async function test(): Promise<void> {
  const fn = testFunction(handle, { id: 'visits', state_config: { on_error: 'keep' } });
  const alice: TestSession<Visit, { visits: number | bigint }> = fn.session('alice', { visits: 1 });
  const answer: Answer<{ visits: number | bigint }> = await alice.call({ name: 'Alice' });
  const visits: number | bigint = (await alice.invoke({ name: 'Alice' })).visits;
  const seq: number | null = (await alice.deliver({ name: 'Alice' })).session_seq;
  fn.clock.advance(60.5);
  await testSession(handle, 'bob', { state: { list: [1] } }).invoke({ name: 'Bob' });
  if (answer.error !== null && answer.error.type === '' && visits && seq) throw new StateError('not_found', '');
  // @ts-expect-error the event has a name
  await alice.invoke({});
  // @ts-expect-error keep or rollback
  testFunction(handle, { state_config: { on_error: 'forget' } });
  // @ts-expect-error a handler is a function
  testFunction('handle');
}

void [wrong, test];
