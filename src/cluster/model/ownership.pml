/* Ownership of one session among nodes, for Spin.
 *
 * The store is atomic: each of its commits is one step. What is modelled is every step that another
 * node can come between:
 *   Node   Members: join, renew, lose; place: read the record, read who is alive, claim;
 *          FunctionHost: run a call on what is in memory, commit it with the version as its fence, or,
 *          if it wrote nothing, answer it because the lease is sure to hold.
 *   Clock  of the store; whoever waits for nothing lets it tick. A node may be paused anywhere, for
 *          ever so long: Spin takes steps of others between any two of its own.
 *
 * A key is one run of a node between joining and losing its lease; it never comes back. Versions of
 * the session's record: each claim and each commit takes the next.
 *
 * What is checked:
 *   - a commit is applied only if it builds on all that were applied before: nobody writes on what he
 *     has not seen (the fence);
 *   - numbers that are acknowledged only grow, and none is given twice;
 *   - an answer that wrote nothing tells of everything that was acknowledged before it was asked for,
 *     whoever is paused, as long as clocks differ by less than the margin;
 *   - a node that is alive and sure of its lease is not taken from.
 *
 * With one of NO_FENCE, NO_MARGIN, OLD_VIEW, KEY_RETURNS or CLAIM_BLINDLY defined, a rule is left out, and Spin
 * must find an error: tests/models runs those too.
 */

#define NODES 2
#define LEASE 3   /* ticks by the store's clock */
#define CALLS 2   /* of each node */
#define MAXTIME 5
#define KEYS 4
#define NOBODY 255

#ifdef NO_MARGIN
#define SURE (LEASE + 2)  /* a node that trusts its lease longer than others wait for it */
#else
#define SURE (LEASE - 1)
#endif

byte now_ = 0;

/* The registry: until when the lease of each key holds; 0: there is none. */
byte until[KEYS];
byte keys = 0;

/* The session's record, and what its state is: the number of the newest call whose write is in it. */
byte version = 1;
byte owner = NOBODY; /* a key */
byte state = 0;
byte reserved = 0;   /* numbers up to this may have been given */

byte acknowledged = 0; /* the newest state that a caller was told of */

#define isAlive(key) (key != NOBODY && until[key] > now_)

proctype Clock() {
  do
  :: now_ < MAXTIME -> now_++
  :: now_ == MAXTIME -> break
  od
}

proctype Node(byte me) {
  byte key = NOBODY;
  byte sure = 0;          /* until when the own lease is trusted */
  byte seen_version = 0;  /* 0: the session is not in memory */
  byte seen_state = 0;
  byte last = 0;          /* the newest number that it has given */
  byte claimed_by = NOBODY;
  byte found_owner, found_version;
  byte began, at_least;
  bool found_alive;
  byte calls = 0;

  do
  :: calls == CALLS || now_ == MAXTIME -> break

  /* Joins, under a key of its own. The time is taken before the lease is. */
  :: key == NOBODY && keys < KEYS ->
     began = now_;
     atomic { key = keys; keys++; until[key] = now_ + LEASE; sure = began + SURE; began = 0 }

  /* Renews; refused if the lease has ended. */
  :: key != NOBODY ->
     began = now_;
     atomic {
       if
       :: isAlive(key) -> until[key] = now_ + LEASE; sure = began + SURE
       :: else ->
#ifdef KEY_RETURNS
          until[key] = now_ + LEASE; sure = began + SURE
#else
          key = NOBODY; sure = 0
#endif
       fi;
       began = 0
     }

  /* Loads the session: reads its record, then who is alive, then claims it. Three steps. */
  :: key != NOBODY && seen_version == 0 ->
#ifdef OLD_VIEW
     found_alive = isAlive(owner);
     atomic { found_owner = owner; found_version = version }
#else
     atomic { found_owner = owner; found_version = version }
     found_alive = isAlive(found_owner);
#endif
     if
#ifndef CLAIM_BLINDLY
     :: atomic { found_alive && found_owner != key -> found_owner = 0; found_version = 0; found_alive = false } /* forwarded */
     :: !found_alive || found_owner == key ->
#else
     :: true ->
#endif
        atomic {
          if
          :: version == found_version ->
             version++; owner = key; reserved = reserved + 1;
             seen_version = version; seen_state = state; last = reserved; claimed_by = key
          :: else -> skip
          fi;
          found_owner = 0; found_version = 0; found_alive = false
        }
     fi

  /* A call that writes: runs on what is in memory, then commits. What was claimed under another key
     is claimed again by the same commit. */
  :: atomic { key != NOBODY && seen_version != 0 && calls < CALLS -> calls++; last++ }
     atomic {
       if
#ifdef NO_FENCE
       :: true ->
#else
       :: version == seen_version ->
#endif
          assert(seen_state == state); /* nobody builds on what he has not seen */
          assert(last > state);        /* no number twice, none back */
          version++; owner = key; claimed_by = key; state = last; seen_state = last; seen_version = version;
          reserved = (last > reserved -> last : reserved);
          acknowledged = state
#ifndef NO_FENCE
       :: else -> seen_version = 0; seen_state = 0; last = 0; claimed_by = NOBODY /* fenced: forgotten */
#endif
       fi
     }

  /* A call that only reads: answered from memory if the lease is sure, under which it was claimed. */
  :: atomic { key != NOBODY && seen_version != 0 && claimed_by == key && calls < CALLS -> calls++; at_least = acknowledged }
     if
     :: atomic { now_ < sure -> assert(seen_state >= at_least); at_least = 0 }
     :: now_ >= sure -> /* a commit tells */
        atomic {
          if
          :: version == seen_version -> assert(seen_state >= at_least)
          :: else -> seen_version = 0; seen_state = 0; last = 0; claimed_by = NOBODY
          fi;
          at_least = 0
        }
     fi
  od
}

init {
  byte n = 0;
  atomic {
    run Clock();
    do
    :: n < NODES -> run Node(n); n++
    :: else -> break
    od
  }
}
