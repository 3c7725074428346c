"""What the state API promises, in a plain dictionary: every answer can be told beforehand."""

import copy
import json

MAX_KEYS = 6
MAX_VALUE = 40  # bytes of JSON
INT64 = range(-2**63, 2**63)


class Refused(Exception):
    def __init__(self, code, current_version=None):
        super().__init__(code)
        self.code = code
        self.current_version = current_version


def text_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Space:
    def __init__(self):
        self.entries = {}  # key -> (value, version)
        self.floor = 0
        self.begin()

    def begin(self):
        """Of a call: all it does is stored at its end, as what became of each key."""
        self.before = (dict(self.entries), self.floor)
        self.dropped = {}  # key -> the highest version it had when it went

    def end(self):
        gone = [version for key, version in self.dropped.items() if key not in self.entries]
        self.floor = max([self.before[1], *gone])

    def roll_back(self):
        self.entries, self.floor = self.before

    def apply(self, operation, arguments):
        before = copy.deepcopy((self.entries, self.floor, self.dropped))
        try:
            return getattr(self, operation)(*arguments)
        except Refused:
            self.entries, self.floor, self.dropped = before
            raise

    def _check_key(self, key):
        if not 1 <= len(key.encode()) <= 256:
            raise Refused("invalid_argument")

    def _put(self, key, value):
        version = self.entries[key][1] if key in self.entries else self.floor
        self.entries[key] = (value, version + 1)
        return version + 1

    def _drop(self, key):
        self.dropped[key] = self.entries.pop(key)[1]
        self.floor = max(self.floor, self.dropped[key])

    def _check_room(self, keys):
        if len(self.entries) + len([key for key in keys if key not in self.entries]) > MAX_KEYS:
            if any(key not in self.entries for key in keys):
                raise Refused("quota_exceeded")

    def get(self, key):
        self._check_key(key)
        return self.entries[key][0] if key in self.entries else None

    def get_with_version(self, key):
        self._check_key(key)
        return list(self.entries.get(key, (None, 0)))

    def set(self, key, value):
        self.set_with_version(key, value, None)
        return True

    def set_with_version(self, key, value, version):
        self._check_key(key)
        if len(text_of(value).encode()) > MAX_VALUE:
            raise Refused("too_large")
        current = self.entries[key][1] if key in self.entries else 0
        if version is not None and version != current:
            raise Refused("version_conflict", current)
        self._check_room([key])
        return self._put(key, value)

    def delete(self, key):
        self._check_key(key)
        if key not in self.entries:
            return False
        self._drop(key)
        return True

    def incr(self, key, delta):
        self._check_key(key)
        value = self.entries[key][0] if key in self.entries else 0
        if type(value) is not int or value not in INT64 or value + delta not in INT64:
            raise Refused("invalid_argument")
        self._check_room([key])
        self._put(key, value + delta)
        return value + delta

    def decr(self, key, delta):
        return self.incr(key, -delta)

    def exists(self, key):
        self._check_key(key)
        return key in self.entries

    def keys(self, pattern):
        prefix = pattern.removesuffix("*")
        return sorted((key for key in self.entries if key.startswith(prefix)), key=str.encode)

    def expire(self, key, ttl):
        self._check_key(key)
        if ttl <= 0:
            raise Refused("invalid_argument")
        return self.persist(key)

    def persist(self, key):
        self._check_key(key)
        if key not in self.entries:
            raise Refused("not_found")
        self._put(key, self.entries[key][0])

    def clear(self):
        for key in list(self.entries):
            self._drop(key)

    def get_many(self, keys):
        for key in keys:
            self._check_key(key)
        return {key: self.entries[key][0] for key in keys if key in self.entries}

    def set_many(self, mapping):
        for key, value in mapping.items():
            self._check_key(key)
            if len(text_of(value).encode()) > MAX_VALUE:
                raise Refused("too_large")
        self._check_room(mapping)
        for key, value in mapping.items():
            self._put(key, value)


KEYS = ["a", "b", "c", "cart:1", "cart:2", "ä", "k1", "k2", "{x}", "*"]
VALUES = [0, 1, -7, 41, 2**52, "text", "ü", [], {}, [1, "two", None], {"k": [True]}, None, 1.5, "x" * 60]


def random_operation(rng):
    """Name and arguments, as the model and the SDKs take them."""
    key = rng.choice(KEYS)
    value = rng.choice(VALUES)
    return rng.choice([
        ("get", [key]), ("get_with_version", [key]), ("set", [key, value]), ("set", [key, value]), ("set", [key, rng.randrange(9)]),
        ("set_with_version", [key, value, rng.choice([None, 0, 1, 2, 3, 5])]), ("delete", [key]),
        ("incr", [key, rng.choice([1, 5, -3])]), ("decr", [key, 2]), ("incr", [key, 1]), ("exists", [key]),
        ("keys", [rng.choice(["*", "cart:*", "k*"])]), ("expire", [key, rng.choice([100, 0.5e6, 0, -1])]), ("persist", [key]),
        ("clear", []) if rng.random() < 0.2 else ("get", [key]),
        ("get_many", [rng.sample(KEYS, 3)]), ("set_many", [{k: rng.choice(VALUES[:9]) for k in rng.sample(KEYS, 2)}]),
    ])
