"""The study: what was tried, what came out, what to try next. It lies in a database that several machines may share.

Every decision is a function of what the database holds: a trial's values of (seed, its number, the trials that have ended), its
pruning of (its evaluations so far, the other trials'). A controller that begins anew therefore decides as the one before it.
"""

import hashlib
import math
import socket
import time
import uuid

import optuna
import sqlalchemy.exc
from optuna.trial import TrialState, create_trial
from sqlalchemy.engine import make_url

from .program import UsageError

# Of how many trials one goes on at each rung, as in Li et al., "A System for Massively Parallel Hyperparameter Tuning" (2018).
REDUCTION_FACTOR = 3
HEARTBEAT_SECONDS = 15
# After so long without a heartbeat a trial of another machine is taken over.
ABANDONED_SECONDS = 90
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
LOST = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.DBAPIError)


class SeededSampler(optuna.samplers.BaseSampler):
    """Draws all values of a trial at once, by a generator seeded by (seed, trial number): nothing depends on what was drawn before
    in the same process. A grid is walked in an order shuffled by the seed."""

    def __init__(self, kind, seed, space):
        self.kind, self.seed, self.space = kind, seed, space

    def infer_relative_search_space(self, study, trial):
        return self.space.distributions()

    def sample_relative(self, study, trial, search_space):
        if self.kind == "grid":
            return self.space.grid_point(shuffled(self.space.grid_size(), self.seed)[trial.number])
        seed = number_of(self.seed, trial.number) % 2**32
        sampler = optuna.samplers.TPESampler(seed=seed) if self.kind == "tpe" else optuna.samplers.RandomSampler(seed=seed)
        values = dict(sampler.sample_relative(study, trial, sampler.infer_relative_search_space(study, trial)))
        for name, distribution in search_space.items():
            if name not in values:
                values[name] = sampler.sample_independent(study, trial, name, distribution)
        return values

    def sample_independent(self, study, trial, param_name, param_distribution):
        return self.sample_relative(study, trial, self.space.distributions())[param_name]


def number_of(*parts):
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big")


def shuffled(count, seed):
    return sorted(range(count), key=lambda index: number_of(seed, index))


def make_pruner(kind, trials):
    """A resource of the pruner's is one evaluation."""
    if kind == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=REDUCTION_FACTOR)
    if kind == "median":
        return optuna.pruners.MedianPruner()
    whole = next((trial.last_step for trial in trials if trial.state == TrialState.COMPLETE), None)
    if kind == "hyperband" and whole:
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=whole, reduction_factor=REDUCTION_FACTOR)
    return optuna.pruners.NopPruner()


def open_storage(url):
    """The database. Raises UsageError where it cannot be reached, the password left out of the message."""
    try:
        shown = make_url(url).render_as_string(hide_password=True)
        sqlite = make_url(url).get_backend_name() == "sqlite"
    except sqlalchemy.exc.ArgumentError as error:
        raise UsageError(f"--storage {url} is no address of a database; "
                         "expected sqlite:///FILE or postgresql://USER@HOST/DATABASE") from error
    connect = {"timeout": 60} if sqlite else {"connect_timeout": 10}
    for attempt in range(5):
        try:
            return optuna.storages.RDBStorage(url, engine_kwargs={"connect_args": connect, "pool_pre_ping": True})
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError) as error:
            problem = error  # another machine makes the tables at this moment
            time.sleep(0.5 * (attempt + 1))
        except Exception as error:  # whatever a driver throws
            problem = error
            break
    said = str(getattr(problem, "orig", None) or problem).strip().splitlines()
    raise UsageError(f"the storage {shown} cannot be used: {said[0] if said else type(problem).__name__}\n"
                     "Check that the server runs, that the database exists, and user and password; "
                     "without --storage the study lies in a file of OUTPUT_DIR.")


class Study:
    """One study in the database, as one controller sees it.

    sampler, pruner, seed: the settings; sweep: what the study is about (space, config, settings), a dict that is compared with
    that of whoever began the study; folder: the controller's folder, part of its name as the owner of trials.
    """

    def __init__(self, storage, name, space, folder, sampler, pruner, seed, maximize, sweep):
        self.storage, self.name, self.space = storage, name, space
        self.pruner, self.maximize = pruner, maximize
        self.sampler = SeededSampler(sampler, seed, space)
        self.owner = f"{socket.gethostname()}:{folder}"
        self.seen = {}
        self.id = self.create_or_check(sweep)

    def create_or_check(self, sweep):
        direction = "maximize" if self.maximize else "minimize"
        try:
            study = optuna.create_study(study_name=self.name, storage=self.storage, direction=direction)
            study.set_user_attr("id", uuid.uuid4().hex)
            study.set_user_attr("sweep", sweep)
        except optuna.exceptions.DuplicatedStudyError:
            pass
        for _ in range(20):
            attributes = self.load().user_attrs
            if "sweep" in attributes:
                break
            time.sleep(0.5)  # its maker is about to write them
        else:
            raise UsageError(f'the study "{self.name}" was not begun by this script; name another with --study')
        problems = [f"  {path}: {old} there, now {new}" for path, old, new in differences(attributes["sweep"], sweep)]
        if problems:
            problems = "\n".join(problems)
            raise UsageError(f'the study "{self.name}" is about something else:\n{problems}\n'
                             "Take its own settings to go on with it, or begin another: --study NAME and an output_dir of its own")
        return attributes["id"]

    def load(self):
        """A handle without a memory of its own: what other machines did is seen."""
        return optuna.load_study(study_name=self.name, storage=self.storage, sampler=self.sampler,
                                 pruner=optuna.pruners.NopPruner())

    def trials(self):
        return self.load().get_trials(deepcopy=False)

    def extend_to(self, count):
        """Makes `count` trials of the study. They wait to be claimed, each by one controller."""
        study = self.load()
        for _ in range(count - len(study.get_trials(deepcopy=False))):
            study.add_trial(create_trial(state=TrialState.WAITING))

    def claim(self, count, held):
        """The next trial of the first `count` to run, or None: one that this controller's predecessor left, one that waits, one
        that another machine abandoned. held: numbers that run here already."""
        trials = [trial for trial in self.trials()[:count] if trial.number not in held]
        for trial in trials:
            if trial.state == TrialState.RUNNING and trial.user_attrs.get("owner") == self.owner:
                return self.opened(trial)
        for trial in trials:
            if trial.state == TrialState.RUNNING and self.abandoned(trial):
                self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
            elif trial.state != TrialState.WAITING:
                continue
            # Named before, so that a claim that dies half-way is found again; and after, should two have named themselves.
            self.storage.set_trial_user_attr(trial._trial_id, "owner", self.owner)
            if self.storage.set_trial_state_values(trial._trial_id, TrialState.RUNNING):
                self.storage.set_trial_user_attr(trial._trial_id, "owner", self.owner)
                return self.opened(trial)
        return None

    def abandoned(self, trial):
        """Whether its heartbeat has stood still for long; clocks of different machines are not compared."""
        beat = (trial.user_attrs.get("owner"), trial.user_attrs.get("heartbeat"))
        now = time.monotonic()
        if self.seen.get(trial.number, (None, 0))[0] != beat:
            self.seen[trial.number] = (beat, now)
        return now - self.seen[trial.number][1] > ABANDONED_SECONDS

    def opened(self, trial):
        """The trial with its values; what an interrupted claim had drawn is drawn again and equal."""
        study = self.load()
        study.get_trials(deepcopy=False)  # its cache must have seen a trial before it can write the trial's values
        handle = optuna.trial.Trial(study, trial._trial_id)
        for name, distribution in self.space.distributions().items():
            suggest(handle, name, distribution)
        return handle

    def beat(self, trial):
        trial.set_user_attr("heartbeat", int(time.time()))

    def judge(self, trial, values):
        """Records the evaluations (the first stands at 1); True where the trial ought to end after the last one of them."""
        passed = self.recorded(trial).user_attrs.get("passed", 0)
        for count in range(passed + 1, len(values) + 1):
            if count not in self.recorded(trial).intermediate_values:
                trial.report(values[count - 1], count)
            prune, rungs = self.shadow_decision(trial, values[:count])
            trial.set_user_attr("rungs", rungs)
            if prune:
                return True
            trial.set_user_attr("passed", count)
        return False

    def recorded(self, trial):
        return self.storage.get_trial(trial._trial_id)

    def shadow_decision(self, trial, values):
        """(whether to prune, the rungs it reached), in a copy of the study where the trial reports from its beginning.

        Optuna's pruners note a trial's rungs while they decide, so that asking again after a crash would answer otherwise.
        """
        trials = self.trials()
        shadow = optuna.create_study(study_name=self.name, direction="maximize" if self.maximize else "minimize",
                                     pruner=make_pruner(self.pruner, trials))
        shadow.add_trials(blank(other) if other.number == trial.number else copied(other) for other in trials)
        own = optuna.trial.Trial(shadow, shadow.get_trials(deepcopy=False)[trial.number]._trial_id)
        prune = False
        for step, value in enumerate(values, 1):
            own.report(value, step)
            prune = own.should_prune()
        return prune, shadow.get_trials(deepcopy=False)[trial.number].system_attrs

    def finish(self, trial, state, value=None, reason=None):
        """Records how a trial ended; a second time changes nothing."""
        if self.recorded(trial).state in ENDED:
            return
        if reason:
            trial.set_user_attr("reason", reason)
        self.load().tell(trial.number, value, state)

    def give_back(self, trial):
        """An unfinished trial waits for whoever comes next."""
        self.storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)

    def best(self, count):
        """The best of the finished trials, the first where several are equal; None where there is none."""
        finished = [trial for trial in self.trials()[:count] if trial.state == TrialState.COMPLETE]
        sign = -1 if self.maximize else 1
        return min(finished, key=lambda trial: (sign * trial.value, trial.number), default=None)


def suggest(trial, name, distribution):
    if isinstance(distribution, optuna.distributions.CategoricalDistribution):
        trial.suggest_categorical(name, distribution.choices)
    elif isinstance(distribution, optuna.distributions.FloatDistribution):
        trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
    else:
        trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)


def blank(trial):
    return create_trial(state=TrialState.RUNNING, params=trial.params, distributions=trial.distributions)


def copied(trial):
    return create_trial(state=trial.state, value=trial.value, params=trial.params, distributions=trial.distributions,
                        intermediate_values=trial.intermediate_values, system_attrs=trial.user_attrs.get("rungs", {}))


def differences(old, new, path=""):
    """(path, old, new) of what differs between two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from differences(old.get(key), new.get(key), f"{path}/{key}")
    elif old != new and not (isinstance(old, float) and isinstance(new, float) and math.isnan(old) and math.isnan(new)):
        yield path, old, new
