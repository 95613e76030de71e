"""Conventions of the workflow: declarations of its rules, profiles, and imports."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from workflow_project import ENVIRONMENT, REPOSITORY

from psibench.tables.stage import read_stages


@pytest.fixture(scope="module")
def rules(tmp_path_factory) -> dict[str, dict[str, Any]]:
    """Facts about every rule by its name, as names_of_rules.py prints them."""
    script = Path(__file__).with_name("names_of_rules.py")
    folder = tmp_path_factory.mktemp("rules")
    done = subprocess.run(
        [sys.executable, str(script), str(REPOSITORY / "Snakefile"), str(folder)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def test_every_stage_rule_declares_its_resources_and_log(rules) -> None:
    lacking = {name: rule["undeclared"] for name, rule in rules.items() if rule["stages"]}
    assert {name: found for name, found in lacking.items() if found} == {}
    logs = [log for rule in rules.values() for log in rule["log"]]
    assert len(set(logs)) == len(logs)
    assert {name for name, rule in rules.items() if not rule["stages"]} == {"all", "probes"}


def profile(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((REPOSITORY / f"profiles/{name}/config.yaml").read_text())
    return read


def test_rules_that_load_a_model_get_a_gpu_on_slurm(rules) -> None:
    given = profile("slurm")["set-resources"]
    on_gpu = {name for name, own in given.items() if own.get("slurm_partition") == "gpu"}
    # Exact search in blocks uses threads.
    without = {"search_vectors", "search_chunks", "recall_vectors"}
    loading = {name for name, rule in rules.items() if rule["environment"] == "gpu"}
    assert {"encode", "score_parts", "ask"} <= loading
    assert on_gpu == loading - without - {"ask"}
    # A job with a vLLM server has four threads, and the GPUs of the model's entry.
    partition = given["ask"]["slurm_partition"]
    assert [eval(partition, {"threads": n}) for n in (1, 4)] == ["cpu", "gpu"]
    assert "gpu" not in given["ask"]


@pytest.mark.parametrize("name", ["slurm", "local"])
def test_a_profile_names_only_existing_rules(rules, name: str) -> None:
    found = profile(name)
    assert {*found.get("set-resources", {}), *found.get("set-threads", {})} <= set(rules)


def test_rules_and_stages_match_each_other(rules) -> None:
    """A missing name would otherwise fail only in the job."""
    assert {name: rule["lacking"] for name, rule in rules.items() if rule["lacking"]} == {}
    assert {stage for rule in rules.values() for stage in rule["stages"]} == set(read_stages())


def test_the_package_does_not_know_snakemake() -> None:
    for path in (REPOSITORY / "src").rglob("*.py"):
        assert not re.search(r"^\s*(import|from) snakemake", path.read_text(), re.MULTILINE), path


def test_a_dry_run_loads_no_model_library() -> None:
    code = (
        "import sys; import psibench.plan.jobs, psibench.plan.summaries; "
        "import psibench.models.load; "
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'datasets', 'matplotlib'}; "
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
