"""scripts/sweep through a real PostgreSQL server: machines that share a study, ends of every kind, a server that goes away."""

import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
import support
import sweep_support
from sweep_support import Sweep, end_process, run, wait_until_no_trial_is_left, write_config

POSTGRES = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class Server:
    """A PostgreSQL server of the test's own."""

    def __init__(self, folder):
        self.data, self.log = folder / "data", folder / "log"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        # The server refuses to run as root.
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            shutil.chown(folder, "postgres")
        self.call("initdb", "--auth=trust", "--username=sweep", "--no-sync", "-D", self.data)

    def call(self, program, *arguments):
        # Its output goes to a file: the server would keep a pipe open.
        with open(self.log.with_suffix(f".{program}"), "a") as out:
            subprocess.run([*self.user, POSTGRES / program, *map(str, arguments)], check=True, stdout=out, stderr=out, cwd="/",
                           timeout=120)

    def start(self):
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self.call("pg_ctl", "-w", "-D", self.data, "-l", self.log, "-o", options, "start")

    def stop(self):
        self.call("pg_ctl", "-w", "-D", self.data, "-m", "immediate", "stop")

    def create(self, name):
        self.call("createdb", "-h", "127.0.0.1", "-p", self.port, "-U", "sweep", name)
        return f"postgresql://sweep@127.0.0.1:{self.port}/{name}"


@pytest.fixture(scope="module")
def server():
    if POSTGRES is None:
        pytest.skip("no PostgreSQL server on this machine; scripts/setup --tests installs it")
    # Not below pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="finetune-postgres-") as folder:
        server = Server(pathlib.Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("storm")
    sweep_support.write_data(folder, rows=300)
    return folder


def test_a_storm_on_a_study_of_24_trials(folder):
    """ASHA, one worker: the controller killed twice, trials five times. 24 ended trials, the same ones, the same best."""
    options = ("--trials", 24, "--seed", 5)
    undisturbed, _ = run(write_config(folder, "calm"), *options)
    config = write_config(folder, "storm")
    draw = random.Random(1)
    for victims in ((2, 5), (9, 12), (17,)):
        sweep = Sweep(config, *options)
        for victim in victims:
            end_process(draw.choice([signal.SIGKILL, signal.SIGTERM]), sweep.wait_for_step(victim, draw.randint(2, 12)))
        sweep.wait_for_step(victims[-1] + 2)
        sweep.kill()
        wait_until_no_trial_is_left(sweep.folder)
    result, _ = run(config, *options)
    assert result["counts"]["failed"] == 0 and result["counts"]["finished"] + result["counts"]["pruned"] == 24
    assert sweep_support.comparable(result) == sweep_support.comparable(undisturbed)


def test_machines_share_a_study(folder, server):
    """Two controllers in folders of their own; one is killed and begins anew, and the server is killed and begins anew. Every trial
    ends exactly once."""
    storage = server.create("shared")
    options = ("--trials", 16, "--storage", storage, "--sampler", "random")
    configs = [write_config(folder, name) for name in ("here", "there")]
    here, there = (Sweep(config, *options) for config in configs)
    wait_for_any_trial(here)
    wait_for_any_trial(there)
    here.kill()
    wait_until_no_trial_is_left(here.folder)
    server.stop()
    time.sleep(2)
    server.start()
    result, _ = run(configs[0], *options)
    ended = there.end()
    assert result["counts"]["failed"] == 0 and result["counts"]["finished"] + result["counts"]["pruned"] == 16
    assert "the storage does not answer" in ended.stderr
    folders = [{path.name for path in (folder / name).glob("trial-????")} for name in ("here", "there")]
    assert folders[0] and folders[1] and not folders[0] & folders[1] and len(folders[0] | folders[1]) == 16


def test_one_worker_with_postgresql_equals_one_with_sqlite(folder, server):
    options = ("--trials", 6, "--seed", 2, "--pruner", "hyperband")
    local, _ = run(write_config(folder, "local"), *options)
    remote, _ = run(write_config(folder, "remote"), *options, "--storage", server.create("remote"))
    assert sweep_support.comparable(remote) == sweep_support.comparable(local)


def wait_for_any_trial(sweep):
    end = time.monotonic() + support.DEADLINE_SECONDS
    while not any(sweep_support.last_step(log) >= 2 for log in sweep.folder.glob("trial-*/metrics.jsonl")):
        assert time.monotonic() < end and sweep.process.poll() is None, sweep.process.communicate()
        time.sleep(0.01)
