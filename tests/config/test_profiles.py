"""Profiles name the rules they are about: a rule made of another has a name of its own."""

import re

import pytest
import yaml

from psibench.config.paths import CONFIG_FOLDER

REPOSITORY = CONFIG_FOLDER.parent
RULE = re.compile(r"^(?:rule (\w+):|use rule (\w+) as (\w+) with:)", re.MULTILINE)
WITHOUT_GPU = {"search_vectors", "recall_vectors"}  # exact search, blocked: threads instead


def gpu_rules() -> set[str]:
    """Names of the rules whose environment is that of a GPU node, inherited or their own."""
    environments: dict[str, str] = {}
    for path in sorted((REPOSITORY / "workflow" / "rules").glob("*.smk")):
        text = path.read_text()
        starts = list(RULE.finditer(text))
        for found, after in zip(starts, [*starts[1:], None][: len(starts)], strict=True):
            body = text[found.end() : after.start() if after else len(text)]
            named = re.search(r"envs/(\w+)\.yaml", body)
            name, base = found[1] or found[3], found[2]
            environments[name] = named[1] if named else environments.get(base or "", "")
            if base and not named:
                environments[name] = f"as {base}"
    while any(value.startswith("as ") for value in environments.values()):
        for name, value in environments.items():
            if value.startswith("as "):
                environments[name] = environments[value.removeprefix("as ")]
    return {name for name, value in environments.items() if value == "gpu"}


def test_every_rule_that_loads_a_model_gets_a_gpu_on_a_cluster() -> None:
    profile = yaml.safe_load((REPOSITORY / "profiles" / "slurm" / "config.yaml").read_text())
    rules = gpu_rules()
    assert {"encode", "encode_shard_vllm", "score_pairs", "score_all_parts", "ask_vllm"} <= rules
    on_gpu = {
        name
        for name, given in profile["set-resources"].items()
        if given.get("slurm_partition") == "gpu"
    }
    assert on_gpu == rules - WITHOUT_GPU - {"on_gpu"}


@pytest.mark.parametrize("name", ["slurm", "local"])
def test_a_profile_names_only_rules_that_there_are(name: str) -> None:
    profile = yaml.safe_load((REPOSITORY / "profiles" / name / "config.yaml").read_text())
    text = "\n".join(p.read_text() for p in (REPOSITORY / "workflow" / "rules").glob("*.smk"))
    known = {found[1] or found[3] for found in RULE.finditer(text)}
    named = {*profile.get("set-resources", {}), *profile.get("set-threads", {})}
    assert named <= known


def test_models_that_vllm_runs_have_the_gpus_of_their_entry() -> None:
    profile = yaml.safe_load((REPOSITORY / "profiles" / "slurm" / "config.yaml").read_text())
    given = profile["set-resources"]
    named = {name for name in given if name.endswith("_vllm")}
    assert named == {"encode_vllm", "encode_shard_vllm", "ask_vllm", "ask_shard_vllm", "probe_vllm"}
    assert all("gpu" not in given[name] for name in named)
