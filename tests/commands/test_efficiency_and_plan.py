import json

import numpy as np
import polars as pl
import pytest
import yaml
from safetensors.numpy import save_file

from psibench.cli import main
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import CORPUS, QUERIES
from psibench.text.lengths import count_whitespace_tokens, with_lengths

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


def test_a_plan_counts_jobs_and_gpu_hours(folder, capsys):
    llm = {"llm": "stand-in"}
    config = {
        "benchmarks": {
            "large": {
                "recipe": "posir",
                "source": {"kind": "python_docs"},
                "sample": {"unit": "tokens", "edges": [0, 1000], "n_documents": 12_000_000},
                "propose_questions": llm | {"share": 0.5, "n_questions": 2},
                "locate_span": llm,
            },
            "small": {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}},
        },
        "models": ["bm25", "mine"],
        "encoding": {"minutes_per_shard": 30, "gpu_tflops": 100},
        "registry": {
            "mine": {
                "backend": "sentence-transformers",
                "checkpoint": "owner/name",
                "max_tokens": 2048,
                "parameters_m": 100,
                "dim": 1024,
            }
        },
    }
    (folder / "my.yaml").write_text(yaml.safe_dump(config))
    assert main(["plan", "--config", "my.yaml", "--csv", "plan.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # See tests/plan/test_planned_texts.py: 208.8 minutes of a GPU, in 7 jobs.
    large = ["large", "eng-Latn", "mine", "plan", "24,000,000", "6,264.0", "209"]
    assert lines[1].split()[:7] == large
    assert lines[1].split()[8:] == ["7", "30", "98.3"]
    assert lines[2].split()[:4] == ["small", "eng-Latn", "mine", "unknown"]
    assert lines[3] == "8 jobs that encode."
    assert lines[4].startswith("3.5 GPU hours at 100 TFLOPS")
    assert "a job takes 30 minutes of a GPU (median), the longest 30." in lines[4]
    # 24 M vectors of 1,024 dimensions, 4 bytes each.
    assert lines[5] == "98.3 GB of vectors in the store, where dimensions and texts are known."
    assert "encoding.shards: NUMBER" in lines[6]
    stored = pl.read_csv("plan.csv").get_column("store_bytes").to_list()
    assert stored == [24_000_000 * 1024 * 4, None]
    assert pl.read_csv("plan.csv").get_column("jobs").to_list() == [7, 1]


def own_texts(folder):
    """Write three texts of 4, 5 and 6 words; return a benchmark of them."""
    (folder / "texts").mkdir()
    for n in range(3):
        (folder / "texts" / f"{n}.txt").write_text(" ".join(f"word{n}" for _ in range(4 + n)))
    return {
        "recipe": "posir",
        "source": {"kind": "files", "paths": ["texts"]},
        "sample": {"unit": "words", "edges": [1, 100], "deduplicate": "none"},
        "propose_questions": {"llm": "stand-in", "n_questions": 2},
        "locate_span": {"llm": "stand-in"},
    }


def test_a_source_on_this_machine_is_read_where_the_config_says_no_number(folder, capsys):
    config = {"benchmarks": {"small": own_texts(folder)}, "models": ["minilm-static", "bm25"]}
    (folder / "my.yaml").write_text(yaml.safe_dump(config | {"length_tokenizer": "words"}))
    assert main(["plan", "--config", "my.yaml", "--csv", "plan.csv"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:6] == ["small", "eng-Latn", "minilm-static", "source", "9", "0.000"]
    assert row[6:] == ["0.0", "0.0", "1", "0.0", "0.000"]
    (plan,) = pl.read_csv("plan.csv").to_dicts()
    # 15 words in three documents, two queries of 22 tokens each; vectors of 384 numbers.
    assert (plan["tokens"], plan["store_bytes"]) == (15 + 6 * 22, 9 * 384 * 4)


def test_a_model_without_a_size_is_named_and_one_that_is_here_is_measured(folder, capsys):
    (folder / "here").mkdir()
    (folder / "here" / "config.json").write_text('{"hidden_size": 4, "vocab_size": 10}')
    save_file({"a": np.zeros((10, 4)), "b": np.zeros((500_000,))}, folder / "here/m.safetensors")
    encoder = {"backend": "sentence-transformers", "max_tokens": 64}
    registry = {
        "far": encoder | {"checkpoint": "owner/name"},
        "near": encoder | {"checkpoint": "./here"},
    }
    config = {"benchmarks": {"small": own_texts(folder)}, "models": ["far", "near"]}
    (folder / "my.yaml").write_text(
        yaml.safe_dump(config | {"registry": registry, "length_tokenizer": "words"})
    )
    assert main(["plan", "--config", "my.yaml", "--csv", "plan.csv"]) == 0
    printed = capsys.readouterr().out
    assert "'-': no minutes of far: neither" in printed
    assert "set `parameters_m` in `registry:`" in printed
    assert "'-': no room of far: neither" in printed
    far, near = pl.read_csv("plan.csv").to_dicts()
    assert (far["gpu_minutes"], far["store_bytes"]) == (None, None)
    # 15 + 6 x 22 tokens, two operations for each of 500,000 parameters, at 100 TFLOPS.
    assert near["gpu_minutes"] == pytest.approx(147 * 2 * 500_000 / 1e14 / 60)
    assert near["store_bytes"] == 9 * 4 * 4


def test_a_corpus_that_is_built_is_counted(folder, capsys):
    """Whatever the config plans: here 12 M documents."""
    data = folder / "results" / "small" / "data" / "eng-Latn" / "general"
    made = Provenance("build", 1)
    texts = pl.DataFrame({"_id": ["a", "b"], "text": ["one two three", "four " * 300]})
    corpus = with_lengths(texts, count_tokens=count_whitespace_tokens)
    write_table(corpus, data / "corpus.parquet", CORPUS, provenance=made)
    empty = pl.DataFrame(pl.from_arrow(QUERIES.schema.empty_table()))
    rows = [("q1", "Which one of them?  ", "a", [0, 3], 13, 3, None)]
    queries = pl.DataFrame(rows, schema=empty.schema, orient="row")
    write_table(queries, data / "queries.parquet", QUERIES, provenance=made)
    sample = {"unit": "words", "edges": [1, 100], "n_documents": 12_000_000}
    config = {
        "benchmarks": {"small": own_texts(folder) | {"sample": sample}},
        "models": ["all-minilm-l6-v2", "minilm-static"],
        "encoding": {"device": "cpu"},
    }
    (folder / "my.yaml").write_text(yaml.safe_dump(config))
    assert main(["plan", "--config", "my.yaml", "--csv", "plan.csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "minutes of a CPU (median)" in lines[4]
    plan = {row["model"]: row for row in pl.read_csv("plan.csv").to_dicts()}
    minilm, static = plan["all-minilm-l6-v2"], plan["minilm-static"]
    assert (minilm["basis"], minilm["texts"]) == ("tables", 3)
    # 3 tokens, 300 cut at 256, and 20 characters of a query at four a token.
    assert (minilm["tokens"], static["tokens"]) == (3 + 256 + 5, 3 + 300 + 5)
    assert minilm["store_bytes"] == 3 * 384 * 4
    assert (
        minilm["cpu_minutes"] == minilm["minutes_per_job"] * minilm["jobs"] > static["cpu_minutes"]
    )


@pytest.mark.parametrize("command", ["plan", "efficiency"])
def test_a_csv_file_needs_a_folder_that_is_there(folder, capsys, command):
    assert main([command, "--csv", "nope/x.csv"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "--csv nope/x.csv: no such folder nope. Make it, or name a file" in printed.err
    assert not (folder / "nope").exists()
    assert main([command, "--csv", str(folder)]) == 2
    assert "is a folder; name a file" in capsys.readouterr().err


def test_a_config_without_encoders_has_no_plan(folder, capsys):
    section = {"recipe": "known_item", "source": {"kind": "python_docs"}}
    config = {"benchmarks": {"small": section}, "models": ["bm25"]}
    (folder / "my.yaml").write_text(yaml.safe_dump(config))
    assert main(["plan", "--config", "my.yaml"]) == 0
    assert capsys.readouterr().out == "No model of this config encodes texts.\n"
