"""The controller: one loop over the slots, each with a device and at most one trial. It keeps nothing that the database and the
run folders do not hold, so that it can be killed at any moment."""

import fcntl
import json
import math
import os
import shutil
import signal
import sys
import time

from optuna.trial import TrialState

from .process import DEVICE_OR_MEMORY, DIVERGED, OUTSIDE, TrialProcess
from .program import UsageError
from .study import ENDED, HEARTBEAT_SECONDS, LOST

POLL_SECONDS = 0.1
# Between two looks of an idle slot for work: trials of other machines may come free.
IDLE_SECONDS = 1.0
# A storage that was reached once may go away for so long (a server that starts anew).
OUTAGE_SECONDS = 900
# So many trials in a row that fail for another reason than their values, before one has come to anything: something is wrong.
MOST_FALSE_STARTS = 3


class Stopped(Exception):
    """A signal asked for the end."""


class FellShort(Exception):
    """The sweep cannot go on."""


def say(message):
    print(message, file=sys.stderr, flush=True)


def described(values):
    return ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())


class Slot:
    """A worker's place: its device, and the trial that runs there."""

    def __init__(self, device):
        self.device = device
        self.look_at = 0.0
        self.hold(None, None)

    def hold(self, trial, run):
        self.trial, self.run = trial, run
        self.judged, self.pruned, self.beat_at, self.waits = -1, False, 0.0, False


class Controller:
    """study: where the trials are; program, config, space: what a trial is; folder: OUTPUT_DIR; fixed: values of every trial."""

    def __init__(self, study, program, config, space, folder, devices, count, metric, keep, fixed):
        self.study, self.program, self.config, self.space = study, program, config, space
        self.folder, self.count, self.metric, self.keep, self.fixed = folder, count, metric, keep, fixed
        self.slots = [Slot(device) for device in devices]
        self.signals = []
        self.false_starts = 0

    def run_folder(self, number):
        return self.folder / f"trial-{number:04}"

    def run(self):
        """Until every trial of the study has ended. Raises Stopped after SIGINT, SIGTERM or SIGHUP, the trials' states saved."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup asks for that
                signal.signal(number, lambda number, frame: self.signals.append(signal.Signals(number)))
        try:
            self.with_patience(lambda: self.study.extend_to(self.count))
            self.with_patience(self.clean)
            if any(trial.state in (TrialState.COMPLETE, TrialState.PRUNED) for trial in self.with_patience(self.study.trials)):
                self.false_starts = -math.inf
            while not self.with_patience(self.turn):
                self.raise_if_stopped()
                time.sleep(POLL_SECONDS)
        except (Stopped, FellShort):
            self.hand_in()
            raise
        finally:
            for slot in self.slots:
                if slot.run is not None:
                    slot.run.kill()

    def raise_if_stopped(self):
        if self.signals:
            raise Stopped(self.signals[0])

    def with_patience(self, action):
        """Repeats what a lost connection to the storage broke; the trials go on meanwhile."""
        began = None
        while True:
            try:
                return action()
            except LOST as error:
                began = began or time.monotonic()
                if time.monotonic() - began > OUTAGE_SECONDS:
                    raise
                say(f"the storage does not answer ({str(error).splitlines()[0]}); trying again")
                for _ in range(50):
                    self.raise_if_stopped()
                    time.sleep(POLL_SECONDS)

    def turn(self):
        """Looks after every slot once; True when there is nothing left to do."""
        for slot in self.slots:
            if slot.trial is None and time.monotonic() >= slot.look_at:
                self.fill(slot)
            if slot.trial is not None:
                self.attend(slot)
        if any(slot.trial is not None or slot.look_at <= time.monotonic() for slot in self.slots):
            return False
        return all(trial.state in ENDED for trial in self.study.trials()[:self.count])

    def fill(self, slot):
        trial = self.study.claim(self.count, {other.trial.number for other in self.slots if other.trial is not None})
        if trial is None:
            slot.look_at = time.monotonic() + IDLE_SECONDS
            return
        values = self.space.values(trial.params)
        folder = self.run_folder(trial.number)
        slot.hold(trial, TrialProcess(self.program, self.config, folder, {**self.fixed, **values}, slot.device, self.metric))
        verb = "goes on" if folder.exists() else "begins"
        say(f"trial {trial.number} {verb}" + (f" on {slot.device}" if slot.device else "") + f": {described(values)}")

    def attend(self, slot):
        if time.monotonic() - slot.beat_at > HEARTBEAT_SECONDS:
            self.study.beat(slot.trial)
            slot.beat_at = time.monotonic()
        code = slot.run.process.poll() if slot.run.process is not None else None
        evaluations = slot.run.evaluations()
        if not slot.pruned and len(evaluations) > slot.judged:
            slot.pruned = self.study.judge(slot.trial, evaluations)
            slot.judged = len(evaluations)
        if slot.pruned:
            slot.run.stop()
            if code is not None or slot.run.process is None:
                self.end(slot, TrialState.PRUNED)
        elif slot.run.process is None:
            if not slot.run.busy():
                slot.run.start()
            elif not slot.waits:
                slot.waits = True
                say(f"trial {slot.trial.number} waits: another process still holds {slot.run.folder}")
        elif code is not None:
            self.conclude(slot, code, evaluations)

    def conclude(self, slot, code, evaluations):
        if code in OUTSIDE:
            name = OUTSIDE[code]
            if not slot.run.gets_further():
                reason = f"ended by {name} again and again without getting further (is memory short?)"
                self.end(slot, TrialState.FAIL, reason=reason)
                return
            say(f"trial {slot.trial.number} was ended by {name}; it is resumed")
            slot.run.start()
        elif code != 0:
            hopeless = code not in (DEVICE_OR_MEMORY, DIVERGED)
            self.end(slot, TrialState.FAIL, reason=slot.run.failure(code), false_start=hopeless)
        elif not evaluations:
            self.end(slot, TrialState.FAIL, reason=f'no evaluation in {slot.run.folder / "metrics.jsonl"}', false_start=True)
        else:
            value = (max if self.study.maximize else min)((v for v in evaluations if math.isfinite(v)), default=math.nan)
            if math.isfinite(value):
                self.end(slot, TrialState.COMPLETE, value)
            else:
                self.end(slot, TrialState.FAIL, reason=f"diverged: {self.metric} was never a finite number")

    def end(self, slot, state, value=None, reason=None, false_start=False):
        self.study.finish(slot.trial, state, value, reason)
        number, count = slot.trial.number, len(self.study.recorded(slot.trial).intermediate_values)
        slot.hold(None, None)
        if state == TrialState.COMPLETE:
            say(f"trial {number} finished: {self.metric} {value:.6g}")
        elif state == TrialState.PRUNED:
            say(f"trial {number} pruned after {count} evaluation{'s' if count != 1 else ''}")
        else:
            say(f"trial {number} failed: {reason}")
        self.clean()
        self.false_starts = self.false_starts + 1 if false_start else -math.inf
        if self.false_starts >= MOST_FALSE_STARTS:
            raise FellShort(f"the first {MOST_FALSE_STARTS} trials failed, the last one: {reason}\n"
                            f"The trials' messages lie in {self.folder}/trial-*.log. With this put right, begin anew: "
                            "--study NAME and an output_dir of its own.")

    def clean(self):
        """Deletes the weights that --keep does not ask for, of trials that have ended; logs and summaries stay."""
        if self.keep == "all":
            return
        best = self.study.best(self.count) if self.keep == "best" else None
        for trial in self.study.trials()[:self.count]:
            if trial.state in ENDED and (best is None or trial.number != best.number):
                for part in ("checkpoints", "model"):
                    shutil.rmtree(self.run_folder(trial.number) / part, ignore_errors=True)

    def hand_in(self):
        """The trials save their states and wait for the next controller. A second signal leaves at once."""
        running = [slot for slot in self.slots if slot.trial is not None]
        if running:
            say(f"stopping {len(running)} trial{'s' if len(running) != 1 else ''}")
        while len(self.signals) < 2 and any(slot.run.process is not None and slot.run.process.poll() is None for slot in running):
            for slot in running:
                slot.run.stop()
            time.sleep(POLL_SECONDS)
        for slot in running:
            slot.run.kill()
            try:
                self.study.give_back(slot.trial)
            except LOST:
                pass  # found again by its owner, or by its silence


def make_folder(folder):
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}; set another output_dir") from error


def lock_folder(folder, study_id):
    """One controller a folder and machine, one study a folder. The lock lasts as long as the returned file is open."""
    make_folder(folder)
    file = open(folder / f".sweep-{os.uname().nodename}.lock", "a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UsageError(f"another sweep is at work in {folder}; wait for it, or set another output_dir") from error
    mark = folder / "sweep.json"
    if mark.exists():
        held = json.loads(mark.read_text())
        if held["id"] != study_id:
            raise UsageError(f"{folder} holds the trials of another study; set another output_dir, or delete that folder")
    elif any(folder.glob("trial-[0-9]*")):
        raise UsageError(f"{folder} holds trials that this study does not know; set another output_dir, or delete that folder")
    else:
        partial = mark.with_suffix(".new")
        partial.write_text(json.dumps({"id": study_id}) + "\n")
        os.replace(partial, mark)
    return file
