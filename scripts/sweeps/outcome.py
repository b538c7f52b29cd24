"""What a sweep ends with: a table, best.json, a line that says the result, and the same as one JSON file."""

import json
import os

from optuna.trial import TrialState

NAMES = {TrialState.COMPLETE: "finished", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed", TrialState.RUNNING: "running",
         TrialState.WAITING: "waiting"}


def write_json(path, value):
    """Whole or not at all."""
    partial = path.with_name(path.name + ".new")
    partial.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    os.replace(partial, path)


def rows(trials, space, folder):
    """One dict a trial; the value of a pruned one is that of its last evaluation, `run` is null where another machine holds it."""
    return [{
        "number": trial.number,
        "result": NAMES[trial.state],
        "value": trial.value,
        "evaluations": len(trial.intermediate_values),
        "values": space.values(trial.params) if len(trial.params) == len(space.parameters) else {},
        "reason": trial.user_attrs.get("reason"),
        "run": str(run) if (run := folder / f"trial-{trial.number:04}").exists() else None,
    } for trial in trials]


def table(entries, metric, maximize):
    """The best first, then the pruned, then the failed."""
    order = list(NAMES.values())
    sign = -1 if maximize else 1
    entries = sorted(entries, key=lambda row: (order.index(row["result"]), sign * (row["value"] or 0), row["number"]))
    keys = sorted({key for row in entries for key in row["values"]})
    lines = [["trial", "result", metric, "evaluations", *keys, ""]]
    for row in entries:
        value = "" if row["value"] is None else f"{row['value']:.6g}"
        settings = [shown(row["values"][key]) if key in row["values"] else "" for key in keys]
        lines.append([str(row["number"]), row["result"], value, str(row["evaluations"]), *settings, (row["reason"] or "")[:100]])
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines)


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)


def write_best(program, config, values, folder):
    """OUTPUT_DIR/best.json: the config with the best trial's values, self-contained, which trains into OUTPUT_DIR/best."""
    best = program.resolved(config, values)
    best["output_dir"] = str(folder / "best")
    path = folder / "best.json"
    write_json(path, best)
    program.validate(path, {})
    return path
