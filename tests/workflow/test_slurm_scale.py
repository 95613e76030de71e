"""The rehearsal of a SLURM run of thousands of jobs, with twenty."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from workflow_project import REPOSITORY, settings_for_groups

N_SHARDS = 20
IN_TURN = {"slurm_partition": "gpu", "gpu": 1, "in_turn": 1, "runtime": 30}


@pytest.fixture(scope="module")
def study():
    path = REPOSITORY / "studies" / "slurm_scale" / "rehearse.py"
    spec = spec_from_file_location("slurm_scale", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_job_with_several_shards_requests_one_shard_at_once(study, tmp_path: Path) -> None:
    grouped = settings_for_groups(5)
    changes = grouped | {"set-resources": {"encode": IN_TURN}, "jobs": 100}
    found = study.rehearse(tmp_path, N_SHARDS, changes)
    # 20 encodings of ten models by fives, one job that makes the tables, ten searches.
    assert found["calls"]["sbatch"] == 4 + 1 + 10
    submitted = (tmp_path / "slurm" / "submitted").read_text().splitlines()
    encoding = [line for line in submitted if "--comment rule_shards_encode" in line]
    assert len(encoding) == 4
    for line in encoding:
        assert re.search(r" -t 150 .*--mem 6000 .*--gpus=1", line), line


def test_arrays_that_would_never_be_submitted_are_refused(study, tmp_path: Path) -> None:
    changes = {"slurm-array-jobs": "encode", "jobs": 5}
    with pytest.raises(SystemExit, match="rule encode has 20 jobs, and `jobs: 5`"):
        study.rehearse(tmp_path, N_SHARDS, changes)
    assert "sbatch" not in (tmp_path / "slurm" / "calls").read_text()
