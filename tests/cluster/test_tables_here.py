"""Only runs of the same config replace the tables over all benchmarks."""

from pathlib import Path

import polars as pl
import pytest

from psibench.cluster.tables_here import (
    FORCE_VARIABLE,
    TABLES,
    claim_tables,
    refuse_unrecorded_tables,
)
from psibench.errors import InputError

PSI, PROBES = TABLES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where my.yaml made the tables of the benchmark `mine`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FORCE_VARIABLE, raising=False)
    Path("results").mkdir()
    claim_tables([PSI], benchmarks=["mine"], configs=["my.yaml"])
    pl.DataFrame({"benchmark": ["mine", "mine"]}).write_parquet(PSI)
    return tmp_path


def test_tables_of_another_config_are_not_replaced() -> None:
    with pytest.raises(InputError, match=r"by .*/my\.yaml, with benchmarks mine\. .* has other"):
        claim_tables([PSI], benchmarks=["other"], configs=["other.yaml"])


def test_tables_of_an_unknown_config_are_not_replaced() -> None:
    (Path(".snakemake") / "psibench-configs.json").unlink()
    with pytest.raises(InputError, match="was made by another config"):
        claim_tables([PSI], benchmarks=["other"], configs=["my.yaml"])


@pytest.mark.parametrize(
    ("made", "benchmarks", "configs"),
    [
        ([PSI], ["renamed"], ["my.yaml"]),  # the same config, edited
        ([PSI], ["renamed"], ["my.yaml", "more.yaml"]),
        ([PSI], ["mine", "other"], ["other.yaml"]),  # another config with the same benchmark
        (["results/other/statistics.parquet"], ["other"], ["other.yaml"]),  # replaces no table
        ([PROBES], ["other"], ["other.yaml"]),  # the probes have no table yet
    ],
)
def test_a_config_may_replace_its_own_tables(
    made: list[str], benchmarks: list[str], configs: list[str]
) -> None:
    claim_tables(made, benchmarks=benchmarks, configs=configs)


def test_runs_with_and_without_stand_ins_do_not_replace_tables() -> None:
    mine = {"benchmarks": ["mine"], "configs": ["my.yaml"]}
    with pytest.raises(InputError, match=r"was made by .*/my\.yaml, with benchmarks mine"):
        claim_tables([PSI], **mine, stand_ins=True)
    Path(PSI).unlink()
    claim_tables([PSI], **mine, stand_ins=True)
    pl.DataFrame({"benchmark": ["mine"]}).write_parquet(PSI)
    claim_tables([PSI], **mine, stand_ins=True)
    with pytest.raises(InputError, match="stand_ins: true, with benchmarks mine"):
        claim_tables([PSI], **mine)


def test_a_forced_run_owns_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCE_VARIABLE, "1")
    claim_tables([PSI], benchmarks=["other"], configs=["other.yaml"])
    pl.DataFrame({"benchmark": ["other"]}).write_parquet(PSI)
    monkeypatch.delenv(FORCE_VARIABLE)
    claim_tables([PSI], benchmarks=["another"], configs=["other.yaml"])
    with pytest.raises(InputError, match=r"was made by .*/other\.yaml"):
        claim_tables([PSI], benchmarks=["mine"], configs=["my.yaml"])


@pytest.mark.parametrize("content", [b"", b"PAR1"])
def test_a_table_that_cannot_be_read_is_replaced(content: bytes) -> None:
    Path(PSI).write_bytes(content)
    claim_tables([PSI], benchmarks=["other"], configs=["other.yaml"])


@pytest.mark.parametrize("record", [None, "metadata/x", "metadata.db", "incomplete/x"])
def test_tables_without_snakemakes_records_are_refused(record: str | None) -> None:
    refuse_unrecorded_tables(["mine"])  # no table of this benchmark yet
    Path("results/mine/runs").mkdir(parents=True)
    Path("results/mine/runs/bm25.parquet").touch()
    for folder in ("metadata", "incomplete"):
        (Path(".snakemake") / folder).mkdir()
    if record:  # a run that was killed in its first job has only marks of unfinished jobs
        (Path(".snakemake") / record).touch()
        refuse_unrecorded_tables(["mine", "mine-raw"])
    else:
        with pytest.raises(InputError, match=r"results/mine has tables, but .*missing or empty"):
            refuse_unrecorded_tables(["mine", "mine-raw"])
