import type { Handler, Json } from './index.js';

/** Those settings of `function.yaml` that matter in tests. */
export interface Settings {
  id?: string;
  timeout_ms?: number;
  state_config?: {
    enabled?: boolean;
    default_ttl?: number;
    max_state_size?: number;
    max_keys?: number;
    max_total_size?: number;
    session_affinity?: boolean;
    session_timeout?: number;
    on_error?: 'rollback' | 'keep';
  };
  retry?: { max_attempts?: number; initial_ms?: number; factor?: number; max_ms?: number };
}

/** The time that state expires by. It stands still until `advance` is called. */
export interface Clock {
  readonly now_ms: number;
  advance(seconds: number): void;
}

/** What a caller of the function gets. */
export interface Answer<Result = any> {
  request_id: string;
  session_key: string | null;
  session_seq: number | null;
  attempts: number;
  status: 'succeeded' | 'failed';
  status_code: number;
  /** null if the call failed. */
  body: Result | null;
  /** null unless the call failed. */
  error: { type: string; message: string; trace?: string } | null;
  /** What was thrown, if the call failed. */
  exception?: unknown;
}

export interface TestSession<Event = any, Result = any> {
  readonly key: string;
  readonly function: TestFunction<Event, Result>;
  /** What is in it now, a copy. */
  readonly state: Record<string, any>;
  /** What its calls have appended to its event log, oldest first. */
  readonly events: Array<Record<string, any>>;
  /** What the call returned. Rejects with what the handler throws. */
  invoke(event?: Event): Promise<Result>;
  /** The whole answer, whether the call failed or not. */
  call(event?: Event): Promise<Answer<Result>>;
  /**
   * An asynchronous call: one that fails is tried again as `retry` says, and the clock goes on by the time in between.
   * The answer is the last attempt's.
   */
  deliver(event?: Event): Promise<Answer<Result>>;
  /** As DELETE of the session: its state goes, and its numbers begin at 1 again. */
  delete(): void;
  advance(seconds: number): void;
}

export interface TestFunction<Event = any, Result = any> {
  readonly id: string;
  readonly clock: Clock;
  /** What is in function scope now, a copy. */
  readonly state: Record<string, any>;
  /** What calls have sent to functions, in order; the delay is in seconds. */
  readonly sent: Array<{ function: string; session: string | null; payload: any; delay: number }>;
  session(key: string, state?: Record<string, Json>): TestSession<Event, Result>;
  /** A call without a session. */
  invoke(event?: Event): Promise<Result>;
  call(event?: Event): Promise<Answer<Result>>;
}

/** A function with all its sessions. */
export function testFunction<Event = any, Result = any>(
  handle: Handler<Event, Result>,
  settings?: Settings,
): TestFunction<Event, Result>;

/** A session of a function that has no others. */
export function testSession<Event = any, Result = any>(
  handle: Handler<Event, Result>,
  key?: string,
  settings?: Settings & { state?: Record<string, Json> },
): TestSession<Event, Result>;
