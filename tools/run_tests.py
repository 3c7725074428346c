"""Builds and runs the tests, part by part, and ends with one line, always: N passed, N failed."""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        return self

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed"

    def in_full(self):
        return f"{self}, {self.skipped} skipped" if self.skipped else str(self)


class BuildFailed(Exception):
    pass


def run(command, env=None):
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}).returncode


class Ahead:
    """Builds what the parts to come need, in their order, while earlier ones run: most tests wait more than they compute.
    Beside tests it is nice to them."""

    def __init__(self):
        self._builds = {}  # what is, or will be, built by the thread

    def start(self, wanted):
        pool = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        for one in wanted:
            if one not in self._builds:
                self._builds[one] = pool.submit(build_now, *one, nice=True)
        pool.shutdown(wait=False)

    def find(self, wanted):
        return self._builds.get(wanted)

    def cancel(self):
        for one in self._builds.values():
            one.cancel()


ahead = Ahead()


def build(preset, *targets):
    """Its directory, once it is built. Failing ends the part that needs it."""
    begun = ahead.find((preset, *targets))
    return begun.result() if begun else build_now(preset, *targets)


def build_now(preset, *targets, nice=False):
    """Configures if need be, builds, and says how long it took."""
    started = time.monotonic()
    directory = "build" if preset == "release" else f"build-{preset}"
    commands = []
    if not (ROOT / directory / "build.ninja").exists():
        commands.append(["cmake", "--preset", preset])
    commands.append(["cmake", "--build", directory, *(["--target", *targets] if targets else [])])
    for command in commands:
        if nice:
            command = ["nice", "-n", "5", *command]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            print(done.stdout)
            raise BuildFailed(f"building {preset} failed")
    what = " ".join([preset, *targets])
    print(f"   built {what} in {time.monotonic() - started:.0f} s", flush=True)
    return directory


def from_junit(path, code):
    """Counts a JUnit report. A runner that died without one counts as a failure."""
    count = Count()
    try:
        suites = xml.parse(path).getroot()
        for case in suites.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                count.failed += 1
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                count.skipped += 1
            else:
                count.passed += 1
    except (OSError, xml.ParseError):
        count.failed += 1
    if code != 0 and count.failed == 0:
        count.failed += 1
    if count.passed + count.failed == 0:
        count.failed += 1  # a part that runs nothing tests nothing
    return count


def programs(directory, env=None, prefix=()):
    """Runs every *_tests program of a build, several at a time, each whole: a process per case, as ctest
    does it, would spend most of its time starting. What a program says is shown only if it failed."""
    found = sorted(str(path) for path in (ROOT / directory).rglob("*_tests") if path.is_file() and os.access(path, os.X_OK))

    def one(program):
        with tempfile.TemporaryDirectory() as temporary:
            report = os.path.join(temporary, "report.xml")
            command = [*prefix, program, "--gtest_brief=1", f"--gtest_output=xml:{report}"]
            try:
                done = subprocess.run(command, cwd=temporary, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, errors="replace", timeout=900)
                output, code = done.stdout, done.returncode
            except subprocess.TimeoutExpired as late:
                output, code = f"{late.stdout}\n{program} did not end in time", 1
            count = from_junit(report, code)
        print(f"   {os.path.basename(program)}: {count.in_full()}", flush=True)
        if count.failed:
            print(output, flush=True)
        return count

    total = Count()
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for count in pool.map(one, found):
            total += count
    if not found:
        total += Count(failed=1)
    return total


# Each file of tests by a process of its own, so that servers that a file's tests share are started once.
SIDE_BY_SIDE = ("-n", str(os.cpu_count()), "--dist", "loadfile")


def pytest(folder, *arguments, env=None):
    with tempfile.TemporaryDirectory() as temporary:
        report = os.path.join(temporary, "report.xml")
        command = ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *arguments, folder]
        return from_junit(report, run(command, {"PYTHONDONTWRITEBYTECODE": "1", **(env or {})}))


def checks():
    """Rules about the source itself; each counts as a test."""
    directory = build("asan")
    count = Count()
    for check in sorted((ROOT / "tools/checks").iterdir()):
        good = run([str(check), directory]) == 0
        print(f"   {check.name}: {'ok' if good else 'FAILED'}", flush=True)
        count += Count(passed=1) if good else Count(failed=1)
    return count


def fuzz(directory, seconds=10):
    """Every fuzz target: first its seeds, then whatever it thinks of. Each counts as a test."""

    def one(source):
        folder = source.parent.relative_to(ROOT)
        subject = source.stem.removesuffix("_fuzz")
        names = [part for part in folder.parts if part != "src"]
        program = ROOT / directory / folder / "_".join([*names, subject, "fuzz"])
        with tempfile.TemporaryDirectory() as found:
            command = [program, f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=0", found,
                       source.parent / "fuzz_seeds" / subject]
            done = subprocess.run(command, cwd=found, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=60 + 3 * seconds)
        good = done.returncode == 0
        print(f"   {program.name}: {'ok' if good else 'FAILED'}", flush=True)
        if not good:
            print(done.stdout, flush=True)
        return Count(passed=1) if good else Count(failed=1)

    total = Count()
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for count in pool.map(one, sorted(path for top in ("src", "sdk") for path in (ROOT / top).rglob("*_fuzz.cpp"))):
            total += count
    return total


def unit():
    directory = build("asan")
    count = programs(directory)
    count += fuzz(directory)
    return count


def threads():
    # Address space randomisation on new kernels leaves ThreadSanitizer no room.
    # Fewer random schedules: they are for logic, and "unit" has run them.
    return programs(build("tsan", "threads_tests"), env={"NIMBUS_SCHEDULES": "100"}, prefix=["setarch", "-R"])


RELEASE = ("release", "nimbus", "crash_writer", "crash_reader")


def end_to_end():
    return pytest("tests/e2e", *SIDE_BY_SIDE, env={"NIMBUS_BIN": str(ROOT / build(*RELEASE) / "nimbus")})


def sdks():
    count = pytest("sdk/python/tests")
    count += pytest("sdk/cpp/tests")
    count += pytest("tests/state_cases")
    count += pytest("tests/types")
    with tempfile.TemporaryDirectory() as temporary:
        report = os.path.join(temporary, "report.tap")
        tests = sorted(str(path) for path in (ROOT / "sdk/node/test").glob("*.test.js"))
        with open(report, "w") as out:
            code = subprocess.run(["node", "--test", "--test-reporter=tap", *tests], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT).returncode
        count += from_tap(report, code)
    return count


def from_tap(path, code):
    """Counts what `node --test` says at its end, and shows all of it if something failed."""
    text = pathlib.Path(path).read_text()
    said = {name: int(number) for name, number in re.findall(r"^# (pass|fail|cancelled|skipped) (\d+)$", text, re.MULTILINE)}
    count = Count(said.get("pass", 0), said.get("fail", 0) + said.get("cancelled", 0), said.get("skipped", 0))
    if (code != 0 or count.passed == 0) and count.failed == 0:
        count.failed += 1
    if count.failed:
        print(text, flush=True)
    return count


def faults(**env):
    directory = build(*RELEASE)
    count = pytest("tests/history")
    count += pytest("tests/faults", *SIDE_BY_SIDE, env={"NIMBUS_BUILD": directory, "NIMBUS_BIN": str(ROOT / directory / "nimbus"), **env})
    return count


def schedules():
    return programs(build("release", "schedules_tests"))


def models():
    return pytest("tests/models")


def long_faults():
    return faults(NIMBUS_LONG="1")


# In an order in which there is always something to build while tests wait.
PARTS = {
    "sdks": (sdks, "the SDKs for Python, JavaScript and C++, each in a real process"),
    "e2e": (end_to_end, "the real binary, from outside"),
    "faults": (faults, "kills, power cuts, full disks"),
    "checks": (checks, "format, includes, coroutine traps"),
    "unit": (unit, "unit and conformance tests, and some fuzzing, with AddressSanitizer and UBSan"),
    "schedules": (schedules, "thousands of random schedules of the stores against the model, optimised"),
    "threads": (threads, "what has threads, with ThreadSanitizer"),
}
# Run by name only.
LONG_PARTS = {
    "long": (long_faults, "the fault tests ten times over (about half an hour)"),
    "models": (models, "the protocols, checked exhaustively by Spin (3 GB of memory, some minutes)"),
}
# What each part asks build() for.
BUILDS = {
    "e2e": RELEASE,
    "faults": RELEASE,
    "long": RELEASE,
    "checks": ("asan",),
    "unit": ("asan",),
    "schedules": ("release", "schedules_tests"),
    "threads": ("tsan", "threads_tests"),
}


def run_part(name, function, what):
    print(f"== {name}: {what}", flush=True)
    started = time.monotonic()
    try:
        count = function()
    except (BuildFailed, OSError, subprocess.SubprocessError) as trouble:
        print(f"   {trouble}", flush=True)
        count = Count(failed=1)
    print(f"== {name}: {count.in_full()} ({time.monotonic() - started:.0f} s)", flush=True)
    return count


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="./test", description=__doc__)
    parser.add_argument("parts", nargs="*", help="which parts to run (all but the long ones unless given)")
    parser.add_argument("--list", action="store_true", help="name the parts")
    arguments = parser.parse_args(arguments)
    known = {**PARTS, **LONG_PARTS}
    if arguments.list:
        for name, (_, what) in known.items():
            print(f"{name:<10} {what}")
        return 0
    unknown = [name for name in arguments.parts if name not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]!r}; there are {', '.join(known)}")
    total = Count()
    wanted = arguments.parts or list(PARTS)
    ahead.start([BUILDS[name] for name in wanted if name in BUILDS])
    try:
        for name in wanted:
            total += run_part(name, *known[name])
    finally:
        ahead.cancel()
    if total.skipped:
        print(f"{total.skipped} skipped")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
