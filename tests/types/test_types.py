"""The types that functions and their tests are written with hold: programs that use them rightly are accepted, mistakes
are found."""

import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
SDK = HERE.parents[1] / "sdk"


def run(*command, **env):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr


def test_python(tmp_path):
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    run("mypy", *options, str(SDK / "python/nimbus/testing.py"), str(HERE / "author.py"), MYPYPATH=str(SDK / "python"))


def test_typescript(tmp_path):
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/nimbus-state").symlink_to(SDK / "node/nimbus-state")
    (tmp_path / "author.ts").write_text((HERE / "author.ts").read_text())
    run("tsc", "--noEmit", "--strict", "--target", "es2020", "--module", "node16", str(tmp_path / "author.ts"))
