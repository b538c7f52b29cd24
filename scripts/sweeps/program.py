"""The program that runs the trials, and what it knows about configs."""

import json
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


class UsageError(Exception):
    """What was asked for cannot be done; nothing was started."""


class Program:
    """`finetune`: $FINETUNE_BINARY, else that of the build folder, else the one on the PATH."""

    def __init__(self):
        built = ROOT / "build" / "bin" / "finetune"
        named = os.environ.get("FINETUNE_BINARY")
        self.binary = named or (str(built) if built.exists() else shutil.which("finetune"))
        if not self.binary or not os.access(self.binary, os.X_OK):
            raise UsageError(f"no program {self.binary or built}: build it (cmake --build build), or name one in FINETUNE_BINARY")

    def config(self, *arguments):
        """What `finetune config` prints; its complaint becomes a UsageError."""
        done = subprocess.run([self.binary, "config", *map(str, arguments)], capture_output=True, text=True)
        if done.returncode != 0:
            raise UsageError(done.stderr.strip() or f"{self.binary} config ended with {done.returncode}")
        return done.stdout

    def schema(self):
        return json.loads(self.config("--schema"))

    def resolved(self, config, values):
        """The config as a dict, every key with the value in force; `values`: overrides by dotted key."""
        return json.loads(self.config("--print", config, *overrides(values)))

    def report(self, runs, output):
        """Writes the page that compares run folders; what is wrong with it, or None."""
        done = subprocess.run([self.binary, "report", *map(str, runs), "--output", str(output)], capture_output=True, text=True)
        return None if done.returncode == 0 else done.stderr.strip() or f"{self.binary} report ended with {done.returncode}"

    def validate(self, config, values):
        self.config("--validate", config, *overrides(values))


def overrides(values):
    """--set options for values by dotted key."""
    return [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
