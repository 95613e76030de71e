import errno
import logging
import os

import pytest
import torch
from polars.exceptions import ComputeError

from psibench.cluster.job import job
from psibench.errors import InputError
from psibench.tables.atomic import atomic_path, is_full, write_whole


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch):
    """Restore the root logger, the environment and torch's threads."""
    root = logging.getLogger()
    handlers, level, threads = root.handlers, root.level, torch.get_num_threads()
    monkeypatch.setattr(os, "environ", dict(os.environ))
    yield
    torch.set_num_threads(threads)
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers = handlers
    root.setLevel(level)


def run(log, error):
    with job(log):
        raise error


def test_bad_input_ends_with_code_2_and_one_line_in_log_and_on_stderr(tmp_path, capsys):
    log = tmp_path / "logs" / "deep" / "x.log"
    with pytest.raises(SystemExit) as raised:
        run(log, InputError("é.json: bad"))
    assert raised.value.code == 2
    assert capsys.readouterr().err == "psibench: error: é.json: bad\n"
    said = log.read_text(encoding="utf-8")
    assert said.endswith(" ERROR é.json: bad\n")
    assert "Traceback" not in said


def test_a_bug_keeps_its_traceback_in_the_log(tmp_path):
    with pytest.raises(KeyError):
        run(tmp_path / "x.log", KeyError("bug"))
    assert "Traceback" in (tmp_path / "x.log").read_text()


def test_a_job_bounds_the_threads_of_the_numeric_libraries():
    with job(threads=3):
        bounded = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS")
        assert [os.environ[name] for name in bounded] == ["3"] * 4


@pytest.mark.parametrize(("own", "policy"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_waiting_threads_sleep_unless_the_user_sets_otherwise(monkeypatch, own, policy):
    monkeypatch.setenv("OMP_WAIT_POLICY", own or "")
    if own is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with job(threads=3):
        assert os.environ["OMP_WAIT_POLICY"] == policy


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device", "store/x.parquet"),
        OSError(errno.EDQUOT, "Disk quota exceeded", "store/x.parquet"),
    ],
)
def test_a_full_disk_is_named_with_its_file_and_no_traceback(tmp_path, capsys, error):
    log = tmp_path / "x.log"
    with pytest.raises(SystemExit) as raised:
        run(log, error)
    assert raised.value.code == 2
    said = capsys.readouterr().err
    assert "store/x.parquet: the disk is full" in said
    assert "Finished work is stored" in said
    assert "Traceback" not in log.read_text(encoding="utf-8")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_write_to_a_full_disk_names_the_file(tmp_path):
    handle = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left") as raised:
        write_whole(handle, b"x", tmp_path / "answers.jsonl")
    os.close(handle)
    assert raised.value.filename == str(tmp_path / "answers.jsonl")
    for inner in (
        OSError(errno.ENOSPC, "x"),
        ComputeError("No space left on device (os error 28)"),
    ):
        with pytest.raises(OSError, match="No space left") as raised, atomic_path(tmp_path / "t"):
            raise inner
        assert raised.value.filename == str(tmp_path / "t")
        assert is_full(raised.value)
