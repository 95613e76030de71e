"""`psibench plan`: the table of a config's work as people read it."""

import polars as pl
import pytest
import yaml
from built_benchmark import write_release

from psibench.cli import main
from psibench.commands.base import read_configs
from psibench.config.paths import CONFIG_FOLDER
from psibench.plan.config import load_config
from psibench.plan.plan import make_plan
from psibench.plan.work import UNCERTAINTY, by_config

ENCODER = {"backend": "sentence-transformers", "checkpoint": "owner/name", "max_tokens": 2048}
LLM = {"llm": "stand-in"}
LARGE = {
    "recipe": "posir",
    "source": {"kind": "python_docs"},
    "sample": {"unit": "tokens", "edges": [0, 1000], "n_documents": 120_000},
    "propose_questions": LLM | {"share": 0.5, "n_questions": 2},
    "locate_span": LLM,
}
FAR = {"recipe": "known_item", "source": {"kind": "hub", "name": "owner/name"}}
CONFIG = {
    "benchmarks": {"large": LARGE, "small": FAR},
    "models": ["bm25", "mine", "unsized"],
    "encoding": {"minutes_per_shard": 30, "gpu_tflops": 100},
    "registry": {"mine": ENCODER | {"parameters_m": 10_000, "dim": 1024}, "unsized": ENCODER},
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(folder, capsys, config, *argv):
    """Return the lines printed, and the rows of the CSV file."""
    for name in ("benchmarks", "models", "encoding", "registry"):  # of several files each lies over
        (folder / f"{name}.yaml").write_text(yaml.safe_dump({name: config.get(name, {})}))
    files = [f"{name}.yaml" for name in ("benchmarks", "models", "encoding", "registry")]
    assert main(["plan", "--config", *files, "--csv", "plan.csv", *argv]) == 0
    return capsys.readouterr().out.splitlines(), pl.read_csv("plan.csv")


def test_stages_are_summed_and_unknown_values_named(folder, capsys):
    lines, rows = plan(folder, capsys, CONFIG, "--by", "model")
    of_mine = rows.filter(stage="encode", by="mine")
    (encode,) = (line.split() for line in lines if line.split()[:2] == ["encode", "mine"])
    # Documents and their queries; and one job of the benchmark that is not counted.
    assert encode[2:4] == ["240,000", f"{of_mine['tokens_in'].sum() / 1e6:.0f}"]
    assert encode[5] == f"{of_mine['gpu_minutes'].sum() / 60:.1f}"
    assert encode[7] == f"{of_mine['jobs'].sum()}"
    assert of_mine["store_bytes"].to_list() == [240_000 * 1024 * 4, None]
    told = "\n".join(lines)
    assert (
        "Estimates: expected values; most actual values are between 1/2 and 2 times these." in told
    )
    assert "GPU hours assume 100 TFLOPS (encoding.gpu_tflops)" in told
    assert (
        "Text count of small unknown: its texts are on the hub. Run `psibench run CONFIG "
        "results/small/statistics.parquet` (makes no paid calls)."
    ) in told
    assert "encoding.shards: NUMBER" in told
    assert "Time of unsized unknown: its entry has no size (parameters_m" in told
    assert "Disk use of unsized unknown: its entry has no dimensions (dim" in told


def test_assumptions_of_gpu_hours_are_printed_if_used(folder, capsys):
    lines, rows = plan(folder, capsys, CONFIG | {"models": ["bm25"]})
    assert rows["gpu_minutes"].count() == 0
    assert "TFLOPS" not in "\n".join(lines)


def test_a_csv_without_its_folder_is_refused_first(folder, capsys):
    assert main(["plan", "--csv", "nope/x.csv"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "--csv nope/x.csv: folder nope does not exist; create it" in printed.err
    assert not (folder / "nope").exists()


SHIPPED = [CONFIG_FOLDER / "config.yaml"]
SHIPPED += sorted(
    path for name in ("presets", "examples") for path in (CONFIG_FOLDER / name).glob("*.yaml")
)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_is_planned_and_estimated(path, capsys, monkeypatch):
    """Without network, counts of texts on the hub are reported as unknown."""
    monkeypatch.chdir(CONFIG_FOLDER.parent)  # examples read files there
    for command in ("plan", "estimate"):
        assert main([command, "--config", str(path)]) == 0
    assert "total" in capsys.readouterr().out


def test_posir_s_plan_has_the_sizes_of_its_paper():
    settings, models = load_config(read_configs([CONFIG_FOLDER / "presets" / "posir.yaml"]))
    texts = by_config(make_plan(settings, models)).texts("posir", "eng-Latn")
    # 31 domains of 70,000 documents; 421,708 queries in ten languages (PosIR, table 1).
    assert texts.n_documents == 31 * 70_000
    assert 421_708 / 10 / UNCERTAINTY <= texts.n_queries <= 421_708 / 10 * UNCERTAINTY


def test_local_texts_are_counted_as_check_counts_them(folder, capsys):
    (folder / "texts").mkdir()
    for name in "abc":  # of 40 words, two passages of 20
        (folder / "texts" / f"{name}.txt").write_text("\n\n".join([" ".join([name] * 20)] * 2))
    mine = {
        "recipe": "known_item",
        "source": {"kind": "files", "paths": ["texts"]},
        "passages": {"min_words": 20, "max_words": 20},
        "queries_per_third": 2,
    }
    config = CONFIG | {"benchmarks": {"mine": mine}, "models": ["bm25", "mine"]}
    (folder / "all.yaml").write_text(yaml.safe_dump(config))
    assert main(["check", "all.yaml"]) == 0
    assert "cut into 6 passages" in capsys.readouterr().out
    _, rows = plan(folder, capsys, config)
    # Six passages, which give no query, because each repeats one word.
    (encode,) = rows.filter(stage="encode").rows(named=True)
    assert (encode["basis"], encode["items"]) == ("source", 6)


def test_a_local_release_is_counted_by_its_rows(folder, capsys):
    write_release(
        folder / "release" / "eng-Latn" / "game",
        corpus=pl.DataFrame({"_id": ["d1", "d2"], "text": ["go has stones", "chess"]}),
        queries=pl.DataFrame(
            {"_id": ["q1"], "text": ["?"], "pos_char_span": [[0, 2]]}
        ).with_columns(pos_char_length=13, pos_token_length=3),
        qrels=pl.DataFrame({"query-id": ["q1"], "corpus-id": ["d1"], "score": [1]}),
    )
    release = {"recipe": "posir_release", "source": {"path": "release"}}
    config = CONFIG | {"benchmarks": {"r": release}, "models": ["bm25", "mine"]}
    _, rows = plan(folder, capsys, config)
    (encode,) = rows.filter(stage="encode").rows(named=True)
    assert (encode["basis"], encode["items"]) == ("source", 2 + 1)


def test_too_long_jobs_are_named_with_a_remedy(folder, capsys):
    config = CONFIG | {"benchmarks": {"large": LARGE}, "models": ["mine"]}
    config["encoding"] = {"shards": 1, "gpu_tflops": 100}
    (folder / "longest.yaml").write_text(yaml.safe_dump({"longest_minutes": 60}))
    # 12,528 s of a GPU (above) are 3.5 h in one job.
    line = (
        "too long: encode by mine, large, eng-Latn: a job takes 3 h, longer than longest_minutes "
        "(1 h); set `encoding.shards: NUMBER` to split it into more jobs."
    )
    (folder / "all.yaml").write_text(yaml.safe_dump(config))
    assert main(["plan", "--config", "all.yaml", "longest.yaml"]) == 0
    assert line in capsys.readouterr().out
    assert main(["check", "all.yaml", "longest.yaml"]) == 0
    printed = capsys.readouterr().out
    assert "valid, but jobs longer than longest_minutes" in printed
    assert line in printed
    assert main(["plan", "--config", "all.yaml"]) == 0  # a day
    assert "too long" not in capsys.readouterr().out


def test_a_small_local_sample_is_planned_exactly(folder, capsys):
    (folder / "texts").mkdir()
    for name, n_words in {"a": 20, "b": 30, "c": 90}.items():  # the last is too long
        text = " ".join(f"{name}{number}" for number in range(n_words))
        (folder / "texts" / f"{name}.txt").write_text(text)
    mine = {
        "recipe": "controlled",
        "source": {"kind": "files", "paths": ["texts"]},
        "sample": {"unit": "words", "edges": [10, 50], "n_documents": 500},
        "choose_configuration": LLM,
        "generate_positional_query": LLM,
    }
    config = CONFIG | {"benchmarks": {"mine": mine}, "models": ["bm25"]}
    (folder / "all.yaml").write_text(yaml.safe_dump(config))
    assert main(["check", "all.yaml"]) == 0
    assert "sample: takes 2 of 500 requested (10 to 50 words)" in capsys.readouterr().out
    _, rows = plan(folder, capsys, config)
    # Two documents, and a query of each of their thirds.
    asked = {row["stage"]: (row["basis"], row["items"]) for row in rows.iter_rows(named=True)}
    assert asked["choose_configuration"] == ("source", 2)
    assert asked["generate_positional_query"] == ("source", 6)


@pytest.mark.parametrize("command", ["plan", "estimate"])
def test_configs_need_no_option_in_front(command, folder, capsys):
    (folder / "a.yaml").write_text(yaml.safe_dump(CONFIG))
    (folder / "b.yaml").write_text("models: [mine]")
    printed = []
    for given in ("--config a.yaml b.yaml", "a.yaml b.yaml", "a.yaml --config b.yaml", "a.yaml"):
        assert main([command, *given.split()]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2]
    assert (printed[3] == printed[0]) == (command == "estimate")  # which models is no cost
