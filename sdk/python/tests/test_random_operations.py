"""Random operations, in calls of one session after another, against a model written in the most obvious way.

The model is the server, too: it hands each call what the session holds, all of it or a part, knows exactly
what has to come back, and keeps it.
"""

import copy
import json
import random

import pytest

from host import NOW, SoonAfter

KEYS = ["a", "b", "c", "ä", "k*"]

# Calls are so far apart, and so are all expiries: no call takes long enough for the two clocks to disagree.
STEP = 1000  # seconds


class Refused(Exception):
    def __init__(self, code, version=None):
        self.outcome = [code, version]


class Model:
    def __init__(self, limits):
        self.limits = limits
        self.now = NOW
        self.floor = 0
        self.there = {}  # key → version, expiry, text
        self.last = {}  # key → the last version it had
        self.changed = {}  # key → whether a value was written to it in this call

    def begin_call(self):
        self.now += STEP * 1000
        self.changed = {}
        for key in [key for key, (_, expires, _) in self.there.items() if 0 < expires <= self.now]:
            self.remove(key)

    def lists(self):
        """What has to be in Result."""
        writes, touches, deletes = {}, {}, {}
        for key, written in self.changed.items():
            if key not in self.there:
                deletes[key] = self.last[key]
                continue
            version, expires, text = self.there[key]
            expires = SoonAfter(expires) if expires else 0
            if written:
                writes[key] = (version, expires, text.encode())
            else:
                touches[key] = (version, expires)
        return writes, touches, deletes

    def remove(self, key):
        version, _, _ = self.there.pop(key)
        self.floor = max(self.floor, version)

    def put(self, key, version, expires, text):
        self.there[key] = (version, expires, text)
        self.last[key] = version

    def expiry(self, ttl):
        return 0 if ttl == -1 else self.now + 1000 * ttl if ttl else self.now + self.limits["default_ttl_ms"]

    def texts(self, values):
        texts = {key: json.dumps(value, separators=(",", ":"), ensure_ascii=False) for key, value in values.items()}
        if any(len(text.encode()) > self.limits["max_value_bytes"] for text in texts.values()):
            raise Refused("too_large")
        return texts

    def write(self, values, expires):
        texts = self.texts(values)
        before = {key: text for key, (_, _, text) in self.there.items()}
        after = before | texts
        if len(after) > max(self.limits["max_keys"], len(before)):
            raise Refused("quota_exceeded")
        if size(after) > max(self.limits["max_total_bytes"], size(before)):
            raise Refused("quota_exceeded")
        for key, text in texts.items():
            self.put(key, (self.there[key][0] if key in self.there else self.floor) + 1, expires, text)
            self.changed[key] = True

    def touch(self, key, expires):
        if key not in self.there:
            raise Refused("not_found")
        self.put(key, self.there[key][0] + 1, expires, self.there[key][2])
        self.changed.setdefault(key, False)
        return True

    def version(self, key):
        return self.there[key][0] if key in self.there else 0

    # ---- operations

    def get(self, key, default=None):
        return json.loads(self.there[key][2]) if key in self.there else default

    def get_with_version(self, key):
        return [self.get(key), self.version(key)]

    def get_many(self, keys):
        return {key: self.get(key) for key in keys if key in self.there}

    def set(self, key, value, ttl=0):
        return self.set_many({key: value}, ttl)

    def set_many(self, values, ttl=0):
        self.write(values, self.expiry(ttl))
        return True

    def set_with_version(self, key, value, version, ttl=0):
        self.texts({key: value})
        if version is not None and version != self.version(key):
            raise Refused("version_conflict", self.version(key))
        self.set(key, value, ttl)
        return self.version(key)

    def incr(self, key, delta=1):
        value = self.get(key, 0)
        if type(value) is not int:
            raise Refused("invalid_argument")
        self.write({key: value + delta}, self.there[key][1] if key in self.there else self.expiry(0))
        return value + delta

    def decr(self, key, delta=1):
        return self.incr(key, -delta)

    def delete(self, key):
        found = key in self.there
        if found:
            self.remove(key)
            self.changed.setdefault(key, False)
        return found

    def clear(self):
        return sum([self.delete(key) for key in list(self.there)])

    def exists(self, key):
        return key in self.there

    def keys(self):
        return sorted(self.there, key=str.encode)

    def expire(self, key, ttl):
        return self.touch(key, self.expiry(ttl))

    def persist(self, key):
        return self.touch(key, 0)


def size(texts):
    return sum(len(text.encode()) for text in texts.values())


def random_operation(generator):
    key = generator.choice(KEYS)
    value = generator.choice([0, 1, 5, -3, 12345, "x", "ä" * 5, [1, 2], {"a": None}, None, "y" * 60])
    ttl = generator.choice([0, 0, -1, STEP, 2 * STEP, 5 * STEP])
    version = generator.choice([None, 0, 1, 2, 3, 4, 5, 6])
    some = generator.choices(KEYS, k=3)
    operations = [
        ["get", key], ["get", key, 5], ["get_with_version", key], ["get_many", some], ["exists", key], ["keys"],
        ["set", key, value], ["set", key, value, ttl], ["set_many", dict.fromkeys(some, value), ttl],
        ["set_with_version", key, value, version], ["set_with_version", key, value, version, ttl],
        ["incr", key], ["incr", key, 7], ["decr", key, 2], ["expire", key, STEP], ["persist", key],
        ["delete", key], ["delete", key], ["clear"],
    ]  # fmt: skip
    return generator.choice(operations)


def invoke(generator, model, instance, event):
    """The call, with all of the session or, now and then, with a part."""
    keys = list(model.there)
    generator.shuffle(keys)
    complete = generator.random() < 0.6
    listed = keys if complete else keys[: generator.randrange(len(keys) + 1)]
    sent = listed if generator.random() < 0.5 else listed[: generator.randrange(len(listed) + 1)]

    def rows(keys):
        found = [(key, *model.there[key]) for key in keys]
        return [[key, version, expires, len(text.encode())] for key, version, expires, text in found]

    def values(keys):
        return [model.there[key][2].encode() for key in keys]

    def load(head, _):
        if "keys" not in head:
            return {"keys": rows(model.there)}, ()
        found = [key for key in head["keys"] if key in model.there]
        return {"keys": rows(found)}, values(found)

    instance.on_state = load
    options = {"floor": model.floor, "complete": complete, "now": model.now}
    return instance.call(event, keys=rows(listed), values=values(sent), **options)


@pytest.mark.parametrize("_", range(20))
def test_random_operations_do_what_the_model_does(session, _):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    generator = random.Random(seed)
    limits = {
        "default_ttl_ms": 3000 * STEP,
        "max_value_bytes": 50,
        "max_keys": generator.choice([3, 4, 100]),
        "max_total_bytes": generator.choice([40, 100, 1000]),
    }
    instance = session.instance(limits)
    model = Model(limits)
    for _ in range(40):
        model.begin_call()
        given = copy.deepcopy(model)
        event = [random_operation(generator) for _ in range(generator.randrange(12))]
        outcomes = []
        for name, *arguments in event:
            try:
                outcomes.append(["ok", getattr(model, name)(*arguments)])
            except Refused as refused:
                outcomes.append(refused.outcome)
        result = invoke(generator, given, instance, event)
        assert result.body == outcomes, (seed, event)
        assert result.changes == model.lists(), (seed, event)
