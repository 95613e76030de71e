import logging
import os

import pytest
import torch

from psibench.cluster.job import job
from psibench.errors import InputError


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch):
    """Give the root logger, the environment and torch's threads back as they were."""
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
def test_threads_that_wait_sleep_unless_the_user_says_otherwise(monkeypatch, own, policy):
    monkeypatch.setenv("OMP_WAIT_POLICY", own or "")
    if own is None:
        monkeypatch.delenv("OMP_WAIT_POLICY")
    with job(threads=3):
        assert os.environ["OMP_WAIT_POLICY"] == policy
