import json

import polars as pl
import pytest

from psibench.cli import main

HEAD = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def benchmark(path, seconds, *, rss=100.0, cpu=1.0):
    """Write a file as Snakemake does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEAD}\n{seconds}\t0:00:01\t{rss}\t1\t1\t1\t1\t1\t1\t{cpu}\n")


def took(path, rule, **more):
    """Write what a job says of itself at its end."""
    asked = {"asked_mib": None, "asked_minutes": None}
    facts = {"model": "", "threads": 1, "cpu_s": 1, "peak_mib": 1, "input_mb": 0} | asked | more
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as log:
        log.write(f"2026-01-31 10:00:09,123 INFO took {json.dumps({'rule': rule} | facts)}\n")


def encode_stats(path, **stats):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as log:
        log.write("2026-01-31 10:00:00,123 INFO device cuda, dtype bfloat16\n")
        log.write(f"2026-01-31 10:00:01,123 INFO encode-stats {json.dumps(stats)}\n")


def rows(capsys) -> list[list[str]]:
    assert main(["efficiency", "--csv", "table.csv"]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_jobs_are_summed_up_by_rule_and_model(folder, capsys):
    jobs = folder / "benchmarks" / "mine"
    benchmark(jobs / "encode" / "bge-m3" / "eng-Latn" / "1-of-2.tsv", 100, rss=900, cpu=150)
    benchmark(jobs / "encode" / "bge-m3" / "eng-Latn" / "2-of-2.tsv", 300, rss=800, cpu=250)
    benchmark(jobs / "ask" / "eng-Latn" / "locate_span.tsv", 50, cpu=5)
    benchmark(jobs / "build" / "eng-Latn" / "law.tsv", 4, rss="NA", cpu="NA")
    benchmark(folder / "benchmarks" / "report.tsv", 3)
    logs = folder / "logs" / "mine"
    took(logs / "ask" / "eng-Latn" / "locate_span.log", "ask", model="locate_span", cpu_s=5)
    logs = logs / "encode" / "bge-m3" / "eng-Latn"
    for name, cpu in (("1-of-2", 150), ("2-of-2", 250)):
        took(logs / f"{name}.log", "encode_shard", model="bge-m3", cpu_s=cpu, peak_mib=850)
    encode_stats(logs / "1-of-2.log", tokens=600, padded_tokens=700, seconds=60)
    encode_stats(logs / "2-of-2.log", tokens=1000, padded_tokens=1100, seconds=80)
    encode_stats(logs / "2-of-2.log", tokens=200, padded_tokens=200, seconds=60)
    found = rows(capsys)
    assert found[1:6] == [
        # 400 CPU seconds in 400; 1,800 tokens in 200 s, 200 of 2,000 computed for nothing.
        ["encode_shard", "bge-m3", "2", "400", "200.0", "300.0", "400", "1.0", "1.0", "900", "-",
         "-", "0.0", "9", "10%"],
        ["ask", "locate_span", "1", "50", "50.0", "50.0", "5", "0.1", "1.0", "100", "-", "-", "0.0",
         "-", "-"],
        ["build", "1", "4", "4.0", "4.0", "-", "-", "-", "-", "-", "-", "-", "-", "-"],
        ["report", "1", "3", "3.0", "3.0", "1", "0.3", "-", "100", "-", "-", "-", "-", "-"],
        # 406 CPU seconds in the 453 s of jobs that were measured.
        ["total", "5", "457", "50.0", "300.0", "406", "0.9", "1.0", "900", "-", "-", "0.0", "9",
         "10%"],
    ]  # fmt: skip
    table = pl.read_csv("table.csv")
    assert table.get_column("cores").to_list()[-1] == pytest.approx(406 / 453)
    assert table.get_column("tokens").to_list()[0] == 1800


def test_what_a_job_took_is_set_beside_what_it_asked_for(folder, capsys):
    """Its own peak of 300 MiB is more than Snakemake saw; 10 s of a quarter of an hour are 1 %."""
    benchmark(folder / "benchmarks" / "mine" / "x" / "all.tsv", 10, rss=20, cpu=2)
    log = folder / "logs" / "mine" / "x" / "all.log"
    log.parent.mkdir(parents=True)
    log.write_text('2026-01-31 10:00:00,123 INFO took {"rule": "cut off\n')
    took(
        log, "x", model="flag", threads=8, cpu_s=20, peak_mib=300, input_mb=1234.5, asked_mib=400,
        asked_minutes=15,
    )  # fmt: skip
    assert rows(capsys)[1] == [
        "x", "flag", "1", "10", "10.0", "10.0", "20", "2.0", "8.0", "300", "75%", "1%", "1,234.5",
        "-", "-",
    ]  # fmt: skip


def test_no_benchmark_files_are_an_error(folder, capsys):
    assert main(["efficiency"]) == 2
    assert "no *.tsv of jobs" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["a\tb\n1\t2\n", f"{HEAD}\nfast\t1\n"])
def test_another_file_is_named(folder, capsys, text):
    path = folder / "benchmarks" / "report.tsv"
    path.parent.mkdir()
    path.write_text(text)
    assert main(["efficiency"]) == 2
    assert "benchmarks/report.tsv: not a benchmark file" in capsys.readouterr().err


def test_a_csv_file_needs_a_folder_that_is_there(folder, capsys):
    assert main(["efficiency", "--csv", "nope/x.csv"]) == 2
    assert "--csv nope/x.csv: no such folder nope. Make it, or name a file" in (
        capsys.readouterr().err
    )
    assert not (folder / "nope").exists()
