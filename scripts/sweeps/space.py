"""The search space: a JSON file of one distribution a config key, checked against the config's own schema."""

import difflib
import itertools
import json
import math
import pathlib

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from .program import UsageError

FIELDS = {"float": ("low", "high", "step", "log"), "int": ("low", "high", "step", "log"), "categorical": ("choices",)}
# What a sweep gives each trial itself, or compares trials by.
RESERVED = {
    "extends": "a trial is made from one config",
    "output_dir": "each trial has a folder of its own",
    "device": "the devices are those of --devices",
    "checkpoint.metric": "trials are compared by one metric",
    "checkpoint.mode": "trials are compared by one metric",
    "checkpoint.keep_best": "trials are compared by one metric",
    "logging.jsonl": "trials are followed through it",
}
MOST_GRID_POINTS = 100_000


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


class Parameter:
    """One config key and the values it may take."""

    def __init__(self, key, entry):
        self.key = key
        self.fail = lambda problem: UsageError(f"{key}: {problem}")
        if not isinstance(entry, dict):
            raise self.fail('expected an object such as {"type": "float", "low": 1e-5, "high": 1e-3, "log": true}')
        self.kind = entry.get("type")
        if self.kind not in FIELDS:
            raise self.fail(f'"type" is {json.dumps(self.kind)}, expected one of {", ".join(FIELDS)}')
        unknown = set(entry) - {"type", *FIELDS[self.kind]}
        if unknown:
            raise self.fail(f'unknown field "{min(unknown)}"; {self.kind} has {", ".join(FIELDS[self.kind])}')
        self.choices = None
        self.distribution = self.categorical(entry) if self.kind == "categorical" else self.range(entry)

    def categorical(self, entry):
        choices = entry.get("choices")
        if not isinstance(choices, list) or not choices:
            raise self.fail('"choices" must be a list of at least one value')
        labels = [value if isinstance(value, (str, int, float, type(None))) else json.dumps(value) for value in choices]
        if len({json.dumps(value) for value in choices}) < len(choices) or len(set(map(repr, labels))) < len(labels):
            raise self.fail('"choices" names a value twice')
        self.choices = list(zip(labels, choices))
        return CategoricalDistribution(labels)

    def range(self, entry):
        low, high, step, log = entry.get("low"), entry.get("high"), entry.get("step"), entry.get("log", False)
        for name in ("low", "high"):
            if not is_number(entry.get(name)):
                raise self.fail(f'"{name}" is {json.dumps(entry.get(name))}, expected a number')
        if low > high:
            raise self.fail(f"no value lies between low {low} and high {high}; exchange them")
        if not isinstance(log, bool):
            raise self.fail(f'"log" is {json.dumps(log)}, expected true or false')
        if step is not None and (not is_number(step) or step <= 0):
            raise self.fail(f'"step" is {json.dumps(step)}, expected a number above 0')
        if log and step is not None:
            raise self.fail('"log" and "step" exclude each other; leave one of them out')
        if log and low <= 0:
            raise self.fail(f"a logarithmic range begins above 0, and low is {low}")
        if self.kind == "float":
            return FloatDistribution(float(low), float(high), log=log, step=step)
        for name in ("low", "high", "step"):
            if isinstance(entry.get(name), float) and not entry[name].is_integer():
                raise self.fail(f'"{name}" is {entry[name]}, expected a whole number; or use "type": "float"')
        return IntDistribution(int(low), int(high), log=log, step=int(step or 1))

    def value(self, label):
        """The config's value for a value of the distribution."""
        if self.choices is None:
            return label
        return next(value for known, value in self.choices if repr(known) == repr(label))

    def edges(self):
        """Values that show whether the config can take all of them."""
        if self.choices is not None:
            return [value for _, value in self.choices]
        return sorted({self.distribution.low, self.distribution.high})

    def grid(self):
        """Every value of the distribution."""
        if self.choices is not None:
            return [label for label, _ in self.choices]
        low, high, step = self.distribution.low, self.distribution.high, self.distribution.step
        if low == high:
            return [low]
        if step is None or self.distribution.log:
            raise self.fail('a grid takes its values one by one: give "step" without "log", or "type": "categorical"')
        count = round((high - low) / step) + 1
        if count > MOST_GRID_POINTS:
            raise self.fail(f"{count} values are too many for a grid; widen step")
        return [low + step * index for index in range(count)]


class Space:
    """The parameters in the order of their keys, so that the order in the file does not matter."""

    def __init__(self, path):
        self.source = read_object(path)
        problems, self.parameters = [], []
        for key in sorted(self.source):
            try:
                self.parameters.append(Parameter(key, self.source[key]))
            except UsageError as problem:
                problems.append(str(problem))
        if not problems and not self.parameters:
            problems.append('it is empty; name at least one key, such as "optimizer.learning_rate"')
        raise_all(path, problems)
        self.path = path

    def check(self, program, config):
        """Every key and every extreme value must be one that the config takes."""
        known = leaf_keys(program.schema())
        problems = []
        for parameter in self.parameters:
            problem = key_problem(parameter, known)
            if problem:
                problems.append(f"{parameter.key}: {problem}")
        raise_all(self.path, problems)
        if not self.taken_together(program, config):
            raise_all(self.path, [f"{parameter.key}: the config does not take {json.dumps(value)}: {refusal}"
                                  for parameter in self.parameters for value in parameter.edges()
                                  if (refusal := refused(program, config, {parameter.key: value}))])

    def taken_together(self, program, config):
        """Whether the config takes all first edges at once, all second ones, ...: much quicker than one by one."""
        edges = [parameter.edges() for parameter in self.parameters]
        columns = ({parameter.key: values[min(index, len(values) - 1)] for parameter, values in zip(self.parameters, edges)}
                   for index in range(max(map(len, edges))))
        return not any(refused(program, config, column) for column in columns)

    def distributions(self):
        return {parameter.key: parameter.distribution for parameter in self.parameters}

    def values(self, labels):
        """The config's values for sampled ones."""
        return {parameter.key: parameter.value(labels[parameter.key]) for parameter in self.parameters}

    def grid_size(self):
        return math.prod(len(parameter.grid()) for parameter in self.parameters)

    def grid_point(self, index):
        point = next(itertools.islice(itertools.product(*(parameter.grid() for parameter in self.parameters)), index, None))
        return dict(zip(self.distributions(), point))


def refused(program, config, values):
    """What the program says against values of its config; None where it takes them."""
    try:
        program.validate(config, values)
    except UsageError as refusal:
        return refusal
    return None


def raise_all(path, problems):
    if problems:
        raise UsageError("\n".join(f"{path}: {problem}" for problem in problems))


def read_object(path):
    """A JSON object without a key named twice."""
    def unique(pairs):
        seen = dict(pairs)
        if len(seen) < len(pairs):
            keys = [key for key, _ in pairs]
            raise UsageError(f'{path}: the key "{next(key for key in keys if keys.count(key) > 1)}" stands in it twice')
        return seen

    try:
        value = json.loads(pathlib.Path(path).read_text(encoding="utf-8"), object_pairs_hook=unique)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected an object with a distribution for each config key")
    return value


def leaf_keys(schema, prefix=""):
    """Dotted key -> its schema, sections left out."""
    keys = {}
    for name, entry in schema.get("properties", {}).items():
        keys.update(leaf_keys(entry, f"{prefix}{name}.") if "properties" in entry else {prefix + name: entry})
    return keys


def types(schema):
    """The JSON types that a key's schema lets through."""
    found = schema.get("type", [])
    found = {found} if isinstance(found, str) else set(found)
    for entry in schema.get("anyOf", []):
        found |= types(entry)
    return found


def key_problem(parameter, known):
    key, kind = parameter.key, parameter.kind
    if key in RESERVED:
        return f"cannot be searched: {RESERVED[key]}"
    if key not in known:
        sections = {name.rpartition(".")[0] for name in known}
        if key in sections:
            return "is a section of the config; name one of its keys"
        near = difflib.get_close_matches(key, known, 1, 0.8)
        near = near or [name for name in known if name.rpartition(".")[2] == key.rpartition(".")[2]][:1]
        return "no such key in the config" + (f"; did you mean {near[0]}?" if near else " (finetune config --schema lists them)")
    taken = types(known[key])
    if kind == "float" and "number" not in taken:
        return 'takes whole numbers: use "type": "int"' if "integer" in taken else 'takes no numbers: use "type": "categorical"'
    if kind == "int" and not taken & {"number", "integer"}:
        return 'takes no numbers: use "type": "categorical"'
    return None
