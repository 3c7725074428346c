/* The protocol between submitters, workers, the sweeper and resize(), for Spin.
 *
 * One session name is enough: sessions meet only in counters. What is modelled is every step that
 * another thread can see, in the order in which the code takes them:
 *   Submitter  Core::accept, SessionTable::Visit::find and obtain, Core::place
 *   WorkerLoop Worker::run, Worker::put, Worker::mayLeave
 *   Sweeper    SessionTable::sweep, Worker::keepNeeded, freeUnseen
 *   Resizer    Core::resize: takes worker 0 away and brings it back
 *
 * What is checked:
 *   - no session object is used after it was freed;
 *   - no two tasks of the session run at once, on whatever workers;
 *   - each submitter's tasks run in the order of its submits;
 *   - nothing is delivered to a worker whose thread has left;
 *   - every accepted task runs (else the model ends in an invalid state).
 *
 * With one of NO_PIN, NO_MARK, NO_LOOK or EARLY_LEAVE defined, a rule is left out, and Spin must
 * find an error: tests/models runs those too.
 */

#define SUBMITTERS 2
#define TASKS 2
#define TOTAL (SUBMITTERS * TASKS)
#define SWEEPS 2
#define OBJECTS 6
#define NONE 255

/* A session object: whether it is marked, its worker, and whether it is memory at all. */
bool is_retiring[OBJECTS];
byte home[OBJECTS];
bool is_freed[OBJECTS];
bool in_limbo[OBJECTS];
byte made = 0;

byte table = NONE; /* the object that a lookup finds */
bool stripe = false;
byte pins = 0;

bool leaving[2];
bool left[2];
byte sessions[2];
chan inbox[2] = [TOTAL] of { byte, byte, byte }; /* object, submitter, number */
byte serves[2] = NONE;                           /* the object whose task it runs */

byte running = 0;
byte done = 0;
byte last[SUBMITTERS];

inline lockStripe() { atomic { !stripe -> stripe = true } }
inline unlockStripe() { stripe = false }

/* Unlinks an object. With the stripe locked. */
inline forget(o) {
  table = NONE;
  atomic { sessions[home[o]]--; in_limbo[o] = true }
}

proctype Submitter(byte me) {
  byte n = 1;
  byte o;
  do
  :: n > TASKS -> break
  :: else ->
#ifndef NO_PIN
    pins++;
#endif
    o = table;
    if
    :: o != NONE ->
      assert(!is_freed[o]);
#ifndef NO_MARK
      if
      :: is_retiring[o] -> o = NONE
      :: else -> skip
      fi
#endif
    :: else -> skip
    fi;
    if
    :: o == NONE ->
      lockStripe();
      o = table;
      if
      :: o == NONE ->
        assert(made < OBJECTS);
        /* The placement mutex: choosing a worker and counting the session are one step. */
        atomic {
          o = made;
          made++;
          home[o] = (leaving[0] -> 1 : 0);
          sessions[home[o]]++
        };
        table = o
      :: else -> skip
      fi;
      unlockStripe()
    :: else -> skip
    fi;
    assert(!is_freed[o]);
    atomic {
      assert(!left[home[o]]);
      inbox[home[o]]!o,me,n
    };
#ifndef NO_PIN
    pins--;
#endif
    n++
  od
}

proctype WorkerLoop(byte me) {
  byte o;
  byte who;
  byte n;
  do
  :: atomic { inbox[me]?o,who,n -> serves[me] = o };
    atomic {
      running++;
      assert(running == 1);
      assert(n == last[who] + 1);
      last[who] = n
    };
    atomic { running--; assert(!is_freed[o]) };
    atomic { serves[me] = NONE; done++ }
  /* Looked at under the worker's mutex, which dismiss() and enlist() take too. */
#ifdef EARLY_LEAVE
  :: atomic { leaving[me] && empty(inbox[me]) -> left[me] = true }; break
#else
  :: atomic { leaving[me] && sessions[me] == 0 && empty(inbox[me]) -> left[me] = true }; break
#endif
  :: done == TOTAL -> break
  od
}

proctype Sweeper() {
  byte sweeps = 0;
  byte o;
  byte i;
  bool due;
  bool quiet;
  do
  :: sweeps == SWEEPS || done == TOTAL -> break
  :: else ->
    sweeps++;
    lockStripe();
    o = table;
    if
    :: o != NONE ->
      is_retiring[o] = true;
      due = (pins == 0);
      if
      :: due ->
#ifndef NO_LOOK
        /* Under the worker's mutex, after its inbox was emptied into lines. */
        atomic {
          if
          :: inbox[home[o]]??[eval(o),_,_] || serves[home[o]] == o -> due = false
          :: else -> skip
          fi
        }
#else
        skip
#endif
      :: else -> skip
      fi;
      if
      :: due -> forget(o)
      :: else -> is_retiring[o] = false
      fi
    :: else -> skip
    fi;
    quiet = (pins == 0);
    d_step {
      i = 0;
      do
      :: i == OBJECTS -> break
      :: else ->
        is_freed[i] = is_freed[i] || (quiet && in_limbo[i]);
        i++
      od;
      i = 0
    };
    unlockStripe()
  od
}

proctype Resizer() {
  atomic { leaving[0] = true };
  atomic {
    leaving[0] = false;
    if
    :: left[0] -> left[0] = false; run WorkerLoop(0)
    :: else -> skip
    fi
  }
}

init {
  atomic {
    byte i = 0;
    do
    :: i == SUBMITTERS -> break
    :: else -> run Submitter(i); i++
    od;
    run WorkerLoop(0);
    run WorkerLoop(1);
    run Sweeper();
    run Resizer()
  };
  /* Nobody is left over: Spin reports it if this is never reached. */
  done == TOTAL
}
