"""Completion scripts and the manual page, as the shells and groff take them."""

import os
import pty
import select
import subprocess
import time

import pytest
import support

COMMANDS = {"train", "eval", "predict", "tokenize", "config", "convert", "doctor", "init", "inspect", "completion"}


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")

    def write(what):
        path = folder / what
        path.write_text(support.finetune("completion", what).stdout)
        return path
    return write


def complete(script, *words, cwd=None):
    """What bash offers for the last word."""
    program = f"source {script('bash')}; complete -p finetune >/dev/null || exit 9\n" \
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()\n' \
        '_finetune; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "--norc", "-c", program, "bash", "finetune", *words], capture_output=True, text=True,
                          cwd=cwd, check=True)
    assert done.stderr == ""
    return set(done.stdout.split())


def test_bash_completes_commands(script):
    assert COMMANDS <= complete(script, "")
    assert complete(script, "in") == {"init", "inspect"}
    assert complete(script, "--quiet", "pred") == {"predict"}


def test_bash_completes_options_of_each_command(script):
    for command in COMMANDS:
        offered = complete(script, command, "--")
        help_text = support.finetune(command, "--help").stdout
        assert "--help" in offered
        for option in offered - {"--quiet", "--verbose", "--help", "--version"}:
            assert option in help_text, (command, option)
    assert {"--config", "--resume", "--dry-run"} <= complete(script, "--")  # train is meant
    assert complete(script, "eval", "--pre") == {"--predictions"}


def test_bash_completes_values(script, tmp_path):
    (tmp_path / "mine.json").write_text("{}")
    (tmp_path / "models").mkdir()
    assert complete(script, "--config", "mi", cwd=tmp_path) == {"mine.json"}
    assert complete(script, "eval", "--model", "m", cwd=tmp_path) == {"models"}
    assert complete(script, "completion", "z") == {"zsh"}
    assert complete(script, "eval", "--format", "c") == {"csv", "conll"}
    assert complete(script, "--set", "optimizer.lea") == {"optimizer.learning_rate="}
    assert complete(script, "init", "mi", cwd=tmp_path) == {"mine.json"}


def test_bash_completes_on_a_terminal(script, tmp_path):
    """A bash that reads from a terminal, and the Tab key."""
    (tmp_path / "finetune").symlink_to(support.BINARY)
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["PS1"] = "> "
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])

    def read_until(text, seconds=30):
        seen = b""
        end = time.monotonic() + seconds
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
        assert text in seen, seen
        return seen
    try:
        os.write(terminal, f"bind 'set enable-bracketed-paste off'; source {script('bash')}; echo ready$((1 + 1))\n".encode())
        read_until(b"ready2")
        os.write(terminal, b"finetune conv\t")
        read_until(b"finetune convert ")
        os.write(terminal, b"\x15finetune --set schedule.w\t")
        read_until(b"schedule.warmup=")
    finally:
        os.write(terminal, b"\x15exit\n")
        os.close(terminal)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_read_it(shell, script):
    done = subprocess.run([shell, "-n", script(shell)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_completes(script):
    def ask(line):
        done = subprocess.run(["fish", "--no-config", "-c", f"source {script('fish')}; complete -C '{line}'"],
                              capture_output=True, text=True, check=True)
        return {row.split("\t")[0] for row in done.stdout.splitlines()}
    assert COMMANDS <= ask("finetune ")
    assert "--predictions" in ask("finetune eval --pre") and "--predictions" not in ask("finetune convert --pre")
    assert "--dry-run" in ask("finetune --dry")
    assert "optimizer.learning_rate=" in ask("finetune --set optimizer.le")


def test_manual_page_describes_every_command(script):
    page = script("man").read_text()
    for command in COMMANDS:
        assert f".SS \\fBfinetune\\fR \\fB{command}\\fR" in page
    for section in ("NAME", "SYNOPSIS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"):
        assert f"\n.SH {section}\n" in page
    assert "\\-\\-dry\\-run" in page


def test_groff_has_nothing_to_say_of_the_manual_page(script):
    page = script("man")
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    shown = subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", page], capture_output=True, text=True, check=True).stdout
    for words in ("finetune eval --model DIR --data FILE", "--dry-run", "EXIT STATUS", "FINETUNE_CACHE"):
        assert words in shown, shown


def test_man_shows_it(script):
    done = subprocess.run(["man", "-l", str(script("man"))], capture_output=True, text=True,
                          env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8", "MANROFFOPT": "-ww"})
    assert done.returncode == 0 and done.stderr == ""
    assert "fine-tunes BERT-style encoders" in done.stdout


def test_unknown_shell_is_refused():
    support.refused(2, "completion", "tcsh", says="tcsh")
