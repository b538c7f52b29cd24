"""The doctor on this machine, and with the simulated accelerator as a second device."""

import json
import pathlib

import pytest
import support

PLUGIN_PATH = pathlib.Path(support.BINARY).parents[1] / "test-plugins"
ON_THE_DEVICE = {"parameters", "gradients", "training data", "inputs of a step", "labels", "dropout's counters",
                 "logits and loss", "validation and test data", "meters", "moments, counters, loss scale"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("doctor")
    support.make_encoder(folder / "encoder")
    support.write_csv(folder / "train.csv", support.make_rows(120, seed=1))
    support.write_csv(folder / "validation.csv", support.make_rows(20, seed=2))
    return folder


def config_for(folder, **changes):
    base = {"data": {"validation": "validation.csv", "max_length": 32}, "train": {"batch_size": 8}}
    return support.write_config(folder / "doctor.json", "encoder", "train.csv", **support.merged(base, changes))


@pytest.fixture(scope="module")
def report(folder):
    """One examination of a job on the simulated accelerator, beside the CPU."""
    result = support.finetune("doctor", "--json", "--config", config_for(folder, device="sim:0"), "--quiet",
                              env=support.environment(FINETUNE_PLUGIN_PATH=str(PLUGIN_PATH), CUDA_LAUNCH_BLOCKING="1"))
    return json.loads(result.stdout)


def test_it_measures_each_device(report):
    assert report["healthy"] and report["usable"] and report["requested_device"] == "sim:0"
    assert [device["device"] for device in report["devices"]] == ["sim:0", "cpu"]
    for device in report["devices"]:
        assert device["launch_seconds"] > 0 and device["round_trip_seconds"] > 0
        assert all(rate > 0 for rate in device["copy_bytes_per_second"].values())
        rates = {rate["type"]: rate for rate in device["products"]}
        assert {"fp32", "bf16"} <= rates.keys()
        assert rates["fp32"]["tflops"] > 0 and rates["fp32"]["count"] > 0
    assert "host to device, pinned" in report["devices"][0]["copy_bytes_per_second"]


def test_everything_of_the_job_is_on_one_device(report):
    job = report["job"]
    assert job["rows"] == 120 and job["batch_size"] == 8 and job["steps"] == 30
    for rehearsal in job["devices"]:
        assert ON_THE_DEVICE <= {row["what"] for row in rehearsal["placement"]}
        for row in rehearsal["placement"]:
            assert row["ok"], row
            assert row["devices"] in ([], [rehearsal["device"]]), row
            assert (row["tensors"] > 0) == (row["what"] in ON_THE_DEVICE), row


def test_a_step_is_split_and_reads_nothing(report):
    for rehearsal in report["job"]["devices"]:
        seconds = rehearsal["seconds"]
        assert seconds["total"] > 0 and rehearsal["steps"] >= 2
        parts = sum(seconds[part] for part in ("data", "forward", "backward", "update", "wait"))
        assert 0 < parts <= 1.001 * seconds["total"]
        assert rehearsal["host_reads"] == 0 and rehearsal["operations"] > 50
        assert rehearsal["memory_plan"]["total"] > rehearsal["memory_plan"]["weights"] > 0


def test_the_slow_ways_are_measured(report):
    on_sim, on_cpu = ({way["name"]: way for way in rehearsal["slow_ways"]} for rehearsal in report["job"]["devices"])
    assert on_sim.keys() == on_cpu.keys() and len(on_sim) == 10
    for ways in (on_sim, on_cpu):
        assert ways["padding to max_length"]["ratio"] > 0
        assert ways["a loaded checkpoint kept alive"]["ratio"] > 1
        assert ways["host read each step"]["ratio"] > 0
        assert ways["model built outside the training routine"]["ratio"] > 0
    for name in ("pageable copy each batch", "optimizer state on the host"):
        assert on_sim[name]["ratio"] > 0
        assert on_cpu[name]["ratio"] is None and on_cpu[name]["note"]


def test_findings_say_what_to_type(report):
    findings = {finding["id"]: finding for finding in report["findings"]}
    assert findings["slow-setting"]["seen"] == "CUDA_LAUNCH_BLOCKING=1"
    assert findings["slow-setting"]["do"] == "unset CUDA_LAUNCH_BLOCKING"
    assert {"right-device", "too-small-for-gpu"} & findings.keys(), "the two devices must be compared"


def test_a_device_that_is_not_there(tmp_path):
    result = support.finetune("doctor", "--device", "xpu", "--quiet", code=5)
    assert "device 'xpu' cannot be used" in result.stdout and "not healthy: xpu cannot be used" in result.stdout


def test_a_config_that_is_wrong_is_refused_before_anything_is_measured(folder):
    support.refused(2, "doctor", "--config", config_for(folder, train={"batch_size": 0}), says="/train/batch_size")
    support.refused(2, "doctor", "--set", "seed=1", says="--config")
