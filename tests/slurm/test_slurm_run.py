"""An undisturbed run on SLURM."""

from collections import Counter
from pathlib import Path

from slurm_project import TABLE, as_users_do, make_project, see_same_table
from workflow_project import REPOSITORY


def test_a_run_on_slurm_gives_the_same_table(slurm: None, reference: Path, tmp_path: Path) -> None:
    project = make_project(tmp_path)
    config = str(project.folder / "config.yaml")
    head = project.run_head(as_users_do(project, TABLE, "--configfile", config), REPOSITORY)
    try:
        head.finish(seconds=800)
        facts = [job.facts() for job in head.jobs()]
        partitions = Counter(fact["Partition"] for fact in facts)
        assert {fact["JobState"] for fact in facts} == {"COMPLETED"}
        assert partitions == {"cpu": 5, "gpu": 1}
        (encode,) = (fact for fact in facts if fact["Partition"] == "gpu")
        assert encode["Comment"].startswith("rule_encode")
        assert "gres:gpu:1" in encode["TresPerJob"] or "gpu:1" in encode["TresPerJob"]
        log = (project.folder / "logs/tiny/encode/all-minilm-l6-v2/eng-Latn.log").read_text()
        (line,) = [line for line in log.splitlines() if "CUDA_VISIBLE_DEVICES" in line]
        assert "partition gpu" in line
        assert "CUDA_VISIBLE_DEVICES=0" in line
        see_same_table(project.folder, reference)
    finally:
        project.end_heads()
