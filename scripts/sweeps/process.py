"""One trial as a process: `finetune` in a folder of its own, followed through its log."""

import ctypes
import fcntl
import json
import math
import os
import pathlib
import signal
import subprocess
import time

from .program import overrides

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
# How long a trial that was asked to stop may take to save its state.
STOP_SECONDS = 120

DEVICE_OR_MEMORY, DIVERGED = 5, 6
# What ends a trial from outside says nothing about the trial; the program turns the first two into exit codes.
OUTSIDE = {128 + signal.SIGINT: "SIGINT", 128 + signal.SIGTERM: "SIGTERM", -signal.SIGINT: "SIGINT", -signal.SIGTERM: "SIGTERM",
           -signal.SIGKILL: "SIGKILL", -signal.SIGHUP: "SIGHUP"}


def tied_to(controller):
    """For preexec_fn: the trial is asked to stop when the controller dies, however it dies."""
    def tie():
        if LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        if os.getppid() != controller:
            os._exit(128 + signal.SIGTERM)
    return tie


class TrialProcess:
    """The process of one trial, begun anew as often as signals end it."""

    def __init__(self, program, config, folder, values, device, metric):
        self.program, self.config, self.folder = program, config, pathlib.Path(folder)
        self.values, self.device, self.metric = values, device, metric
        self.log = self.folder.with_suffix(".log")
        self.process = None
        self.stopped_at = None
        self.furthest, self.idle_ends = -1, 0
        self.seen, self.latest = None, []

    def busy(self):
        """Whether a process still holds the run folder: that of a controller that was killed, saving its state."""
        try:
            with open(self.folder / ".lock", "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            pass  # no such folder yet
        return False

    def start(self):
        """Goes on from the newest checkpoint; a terminal's Ctrl-C reaches the controller only."""
        values = {**self.values, "logging.jsonl": True}
        if self.device:
            values["device"] = self.device
        command = [self.program.binary, "--config", str(self.config), "--output-dir", str(self.folder), "--resume", "auto",
                   "--quiet", *overrides(values)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                            preexec_fn=tied_to(os.getpid()))
        self.stopped_at = None

    def stop(self):
        """Asks the trial to save its state and end; called again, it insists after a while."""
        if self.process is None or self.process.poll() is not None:
            return
        if self.stopped_at is None:
            self.stopped_at = time.monotonic()
            self.process.terminate()
        elif time.monotonic() - self.stopped_at > STOP_SECONDS:
            self.process.kill()

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def evaluations(self):
        """The metric at each evaluation so far, in the order of the steps."""
        try:
            stat = (self.folder / "metrics.jsonl").stat()
        except OSError:
            return []
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if seen != self.seen:
            events = [event for event in self.events(b'"event":"eval"') if event.get("split") == "validation"]
            self.seen, self.latest = seen, [number(event.get(self.metric)) for event in events]
        return self.latest

    def events(self, marker):
        """The log's events with `marker` in their line, the last one of each step. A resume cuts the log, so it is read as a whole;
        a line that is being written is left for later."""
        try:
            content = (self.folder / "metrics.jsonl").read_bytes()
        except OSError:
            return []
        lines = [line for line in content.split(b"\n")[:-1] if marker in line]
        by_step = {}
        for event in map(json.loads, lines):
            by_step[event.get("step", 0)] = event
        return [by_step[step] for step in sorted(by_step)]

    def gets_further(self):
        """Notes how far a trial came that was ended from outside; False where it never gets further, time and again."""
        reached = max((event.get("step", 0) for event in self.events(b'"step":')), default=0)
        self.idle_ends = 0 if reached > self.furthest else self.idle_ends + 1
        self.furthest = max(self.furthest, reached)
        return self.idle_ends < 3

    def last_words(self):
        """The last message of the program."""
        try:
            content = self.log.read_bytes()[-4000:].decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in content.splitlines() if line.strip()]
        begin = next((index for index in reversed(range(len(lines))) if lines[index].startswith("error")), len(lines) - 1)
        return " ".join(lines[max(begin, 0):])[:300]

    def failure(self, code):
        """Why a trial that ended with `code` failed."""
        if code < 0:
            try:
                return f"crashed by {signal.Signals(-code).name}"
            except ValueError:
                return f"crashed by signal {-code}"
        kind = {DEVICE_OR_MEMORY: "device or memory", DIVERGED: "diverged"}.get(code, f"exit code {code}")
        return f"{kind}: {self.last_words()}"


def number(value):
    return float(value) if isinstance(value, (int, float)) else math.nan
