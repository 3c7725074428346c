/** What can be stored, returned and received. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** The codes an operation on state is refused with. */
export type StateErrorCode =
  | 'invalid_argument'
  | 'not_found'
  | 'version_conflict'
  | 'too_large'
  | 'quota_exceeded'
  | 'forbidden'
  | 'unavailable'
  | (string & {});

/** An operation on state that was refused, and changed nothing. */
export class StateError extends Error {
  constructor(code: StateErrorCode, message: string, current_version?: number);
  readonly code: StateErrorCode;
  /** The version the key has, 0 if it is not there. On a `version_conflict` only. */
  readonly current_version?: number;
}

/** A value and its version; version 0 and value null if the key is not there. */
export interface Versioned<T> {
  value: T | null;
  version: number;
}

/**
 * The state of a call, in one of three scopes.
 *
 * Session scope is buffered and committed with the call; each operation of function scope takes effect at once, for
 * all sessions; invocation scope is gone when the call ends.
 *
 * Values are JSON. A key has 1 to 256 bytes of UTF-8 without control characters. A `ttl` is in seconds, fractions
 * allowed; 0 means the function's default, -1 never. Operations take effect in the order they are called in. All
 * reject with a StateError.
 */
export class State {
  static session(): State;
  static function(): State;
  static invocation(): State;

  session(): State;
  function(): State;
  invocation(): State;

  /** The value of `key`, or `fallback` if it is not there. Each get gives a copy of its own. */
  get<T = any>(key: string): Promise<T | null>;
  get<T = any, F = T>(key: string, fallback: F): Promise<T | F>;

  get_with_version<T = any>(key: string): Promise<Versioned<T>>;
  getWithVersion<T = any>(key: string): Promise<Versioned<T>>;

  set(key: string, value: unknown, ttl?: number): Promise<true>;

  /**
   * Sets if the key has this `version`: 0 if it must not be there, left out if any will do. Resolves to the new
   * version. Rejects with `version_conflict` and the `current_version`.
   */
  set_with_version(key: string, value: unknown, version?: number, ttl?: number): Promise<number>;
  setWithVersion(key: string, value: unknown, version?: number, ttl?: number): Promise<number>;

  /** Whether there was such a key. */
  delete(key: string): Promise<boolean>;

  /**
   * Adds to an integer of 64 bits; a key that is not there counts as 0. Exact: resolves to a number where that is
   * safe, to a bigint beyond. Keeps the expiry of a key that is there.
   */
  incr(key: string, delta?: number | bigint): Promise<number | bigint>;
  decr(key: string, delta?: number | bigint): Promise<number | bigint>;

  exists(key: string): Promise<boolean>;

  /** The keys that match, in the order of their bytes. `*`, `?`, `[a-z]`, and `\` before what shall mean itself. */
  keys(pattern?: string): Promise<string[]>;

  /** Lets a key expire in `ttl` seconds, more than 0. Rejects with `not_found` if it is not there. */
  expire(key: string, ttl: number): Promise<true>;

  /** Seconds until the key expires, -1 if it does not. Rejects with `not_found` if it is not there. */
  ttl(key: string): Promise<number>;

  /** Makes a key stay. Rejects with `not_found` if it is not there. */
  persist(key: string): Promise<true>;

  /** Removes all keys of the scope and resolves to how many there were. */
  clear(): Promise<number>;

  /** The values of those keys that are there. */
  get_many<T = any>(keys: Iterable<string>): Promise<Record<string, T>>;
  getMany<T = any>(keys: Iterable<string>): Promise<Record<string, T>>;

  /** Sets all or none. */
  set_many(mapping: Record<string, unknown> | ReadonlyMap<string, unknown>, ttl?: number): Promise<true>;
  setMany(mapping: Record<string, unknown> | ReadonlyMap<string, unknown>, ttl?: number): Promise<true>;
}

/** The state of the call that is running, session scope. */
export const state: State;

/** An event of a session's log, as it is appended. */
export interface NewEvent {
  content: unknown;
  id?: string;
  author?: string;
  request_id?: string;
  invocation_id?: string;
  tag?: string;
  /** RFC 3339. */
  timestamp?: string;
  state_delta?: Record<string, unknown>;
  [name: string]: unknown;
}

/** The event log of the call's session. Events are appended when the call ends, or not at all if it fails. */
export const events: {
  /** Resolves to the event's id, which is made if none is given. */
  append(event: NewEvent): Promise<string>;
  /** The newest n events (10), oldest first, with those that this call has appended, which have no seq yet. */
  recent(n?: number): Promise<Array<NewEvent & { id: string; seq?: number; version?: number }>>;
};

/** Lines `LEVEL message key=value …` in the function's log. */
export const log: {
  debug(message: unknown, fields?: Record<string, unknown> | null): void;
  info(message: unknown, fields?: Record<string, unknown> | null): void;
  warn(message: unknown, fields?: Record<string, unknown> | null): void;
  error(message: unknown, fields?: Record<string, unknown> | null): void;
};

/**
 * Has a function called with the payload, once this call has succeeded: in the order of the session, or without one. Calls
 * to one session arrive in the order in which they were sent. The delay is in seconds.
 */
export function send(functionId: string, session?: string | null, payload?: unknown, delay?: number): Promise<void>;

/** The third argument of a handler. */
export interface Context {
  request_id: string;
  function_id: string;
  version: number;
  /** null in a stateless call. */
  session_key: string | null;
  session_seq: number | null;
  attempt: number;
  /** Unix time in milliseconds. */
  deadline_ms: number;
  traceparent: string | null;
}

/** What a function exports as `handle`. */
export type Handler<Event = any, Result = unknown> = (
  event: Event,
  state: State,
  context: Context,
) => Result | Promise<Result>;
