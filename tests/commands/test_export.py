"""A release read, built and exported is the release it was."""

import polars as pl
import pytest
import yaml
from built_benchmark import change, table, write_release

from psibench.cli import main
from psibench.config.sources import PosirReleaseSource
from psibench.formats.built import DATASET_TABLES
from psibench.formats.posir import RELEASE_COLUMNS
from psibench.generate.loaders.posir_release import PosirRelease
from psibench.tables.job import Job
from psibench.text.lengths import count_whitespace_tokens

PLACES = [("ara-Arab", "game"), ("eng-Latn", "game"), ("eng-Latn", "mining")]
SOURCE = {
    "queries_by": "llm:writer-1",
    "llm_backend": "openai",
    "revisions": {"dataset:owner/release": "abc123"},
}


def release(root):
    """Three datasets whose ids repeat between domains; Arabic spans equal the English ones."""
    for language, domain in PLACES:
        texts = ["نص قصير", "نص"] if language == "ara-Arab" else [f"{domain} one", "two 😀 lines\n"]
        write_release(
            root / language / domain,
            corpus=pl.DataFrame({"_id": ["9", "10"], "text": texts}),
            queries=pl.DataFrame(
                {
                    "_id": ["q2", "q1"],
                    "text": ["second?", "first?"],
                    "pos_char_span": [[0, 3], [2, 9]],
                    "pos_char_length": [12, len(f"{domain} one")],
                    "pos_token_length": [700, 1600],
                }
            ),
            qrels=pl.DataFrame(
                {"query-id": ["q1", "q2"], "corpus-id": ["9", "10"], "score": [1, 2]}
            ),
        )
    return root


def built(root, results, *, prefix_ids=True):
    """The tables of results/ for a release."""
    for language in dict.fromkeys(language for language, _ in PLACES):
        folder = results / "data" / language
        job = Job(
            "build",
            2,
            outputs={name: str(folder / f"{name}.parquet") for name in DATASET_TABLES},
            values={"lang": language, "domains": [d for of, d in PLACES if of == language]},
        )
        for domain in job.domains():
            section = PosirRelease(
                recipe="posir_release",
                source=PosirReleaseSource(path=str(root)),
                language=language,
                domain=domain.name,
                prefix_ids=prefix_ids,
            )
            made = section.build(count_whitespace_tokens)
            for name, spec in DATASET_TABLES.items():
                domain.write(name, getattr(made, name), spec, **SOURCE)
    return results


def tables_of(root):
    return {
        (language, domain, table): pl.read_parquet(
            root / language / domain / table / "test.parquet"
        )
        for language, domain in PLACES
        for table in RELEASE_COLUMNS
    }


@pytest.fixture
def results(tmp_path):
    return built(release(tmp_path / "release"), tmp_path / "results" / "posir")


def run(*args):
    return main(["export", *map(str, args), "--licence", "cc-by-4.0"])


@pytest.mark.parametrize("prefix_ids", [True, False])
def test_release_built_and_exported_equals_the_release(tmp_path, prefix_ids):
    before = tables_of(release(tmp_path / "release"))
    results = built(tmp_path / "release", tmp_path / "r" / "b", prefix_ids=prefix_ids)
    assert run(results, tmp_path / "out", "--layout", "posir") == 0
    after = tables_of(tmp_path / "out")
    for place, frame in before.items():
        assert after[place].columns == frame.columns
        assert after[place].schema == frame.schema
        for column in frame.columns:
            assert after[place][column].equals(frame[column]), (place, column)


def test_ids_keep_prefixes_unless_all_languages_have_them(tmp_path, results):
    odd = pl.Series(["game/9", "other"])
    change(results, "ara-Arab", "corpus", "game", lambda rows: rows.with_columns(_id=odd))
    run(results, tmp_path / "out")
    after = tables_of(tmp_path / "out")
    assert after["eng-Latn", "game", "corpus"]["_id"][0] == "game/9"
    assert after["eng-Latn", "mining", "corpus"]["_id"][0] == "9"


def test_the_card_has_counts_languages_and_where_it_came_from(tmp_path, results):
    run(results, tmp_path / "out")
    text = (tmp_path / "out" / "README.md").read_text()
    _, head, body = text.split("---\n", 2)
    card = yaml.safe_load(head)
    assert card["language"] == ["ara", "eng"]
    assert [one["config_name"] for one in card["configs"]] == [
        f"{language}-{domain}-{table}" for language, domain in PLACES for table in RELEASE_COLUMNS
    ]  # an id may be in two domains: no config has two
    assert "| eng-Latn | mining | 2 | 2 | 2 |" in body
    assert "| all | 3 datasets | 6 | 6 | 6 |" in body
    assert "Queries by: llm:writer-1." in body
    assert "dataset:owner/release: abc123" in body
    assert "stages build 2" in body
    assert "as given by the exporter: cc-by-4.0." in body
    assert card["license"] == "cc-by-4.0"


def test_a_folder_that_holds_something_is_not_written_to(tmp_path, results, capsys):
    (tmp_path / "out").mkdir()
    assert run(results, tmp_path / "out") == 0  # empty: taken
    before = sorted(tmp_path.rglob("*"))
    assert run(results, tmp_path / "out") == 2
    assert "exists and is not empty" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_incomplete_benchmark_leaves_nothing_behind(tmp_path, results, capsys):
    damaged = results / "data" / "eng-Latn" / "qrels.parquet"
    damaged.unlink()
    assert run(results, tmp_path / "out") == 2
    assert (
        "eng-Latn: missing qrels; make these tables with `psibench run CONFIG "
        in capsys.readouterr().err
    )
    damaged.write_bytes(damaged.with_name("corpus.parquet").read_bytes())
    assert run(results, tmp_path / "out") == 2
    assert "missing columns: query-id, corpus-id" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release", "results"]


def test_missing_lengths_of_a_layout_are_named(tmp_path, results, capsys):
    unknown = pl.lit(None, pl.Int32).alias("pos_token_length")
    change(results, "eng-Latn", "queries", "game", lambda rows: rows.with_columns(unknown))
    assert run(results, tmp_path / "out") == 2
    assert "2 queries have no pos_token_length" in capsys.readouterr().err


def test_evidence_without_one_span_needs_extra(tmp_path, results, capsys):
    odd = {
        "pos_char_span": pl.lit(None, pl.Array(pl.Int32, 2)),
        "target_position": pl.Series(["mixed", None]),
        "positions": pl.Series([["beginning", "end"], None]),
        "pos_char_spans": pl.Series([None, [[0, 2], [6, 8]]], dtype=pl.List(pl.List(pl.Int64))),
    }
    change(results, "eng-Latn", "queries", "game", lambda rows: rows.with_columns(**odd))
    assert run(results, tmp_path / "plain") == 2
    assert "evidence of 2 queries is not one span" in capsys.readouterr().err
    assert run(results, tmp_path / "out", "--extra") == 0
    built(tmp_path / "out", tmp_path / "again")
    queries, again = (table(root, "eng-Latn", "queries") for root in (results, tmp_path / "again"))
    assert again.select(queries.columns).equals(queries)


def aimed(results):
    """Declare positions that are not the thirds of the spans' middles, and another positive."""
    # q2: [0, 3) of 12, beginning; q1: [2, 9) of 8, its middle in the end
    declared = pl.Series("target_position", ["end", "middle"])
    change(results, "eng-Latn", "queries", "game", lambda rows: rows.with_columns(declared))
    return table(results, "eng-Latn", "queries", "game")


def test_declared_positions_and_positives_survive_the_round_trip_with_extra(tmp_path, results):
    queries = aimed(results)
    # q1 gets a second positive of the same grade that would be taken by its length
    second = (pl.col("corpus-id").reverse(), pl.lit(3, pl.Int32).alias("score"))
    change(
        *(results, "eng-Latn", "qrels", "game"),
        lambda rows: pl.concat([rows, rows.with_columns(second)]),
    )
    assert run(results, tmp_path / "out", "--extra") == 0
    built(tmp_path / "out", tmp_path / "again", prefix_ids=True)
    for language, domain in PLACES:
        before, after = (
            table(root, language, "queries", domain) for root in (results, tmp_path / "again")
        )
        assert after.equals(before), (language, domain)
    assert queries["pos_corpus_id"].to_list() == ["game/10", "game/9"]
    # without, the qrels decide and positions are left to the spans
    assert run(results, tmp_path / "plain") == 0
    built(tmp_path / "plain", tmp_path / "third", prefix_ids=True)
    lost = table(tmp_path / "third", "eng-Latn", "queries", "game")
    assert lost["target_position"].to_list() == [None, None]
    assert lost["pos_corpus_id"].to_list() == ["game/9", "game/10"]


def test_positions_that_the_layout_loses_are_told(tmp_path, results, capsys):
    assert run(results, tmp_path / "a") == 0
    assert "target_position" not in capsys.readouterr().out
    aimed(results)
    assert run(results, tmp_path / "b") == 0
    lost = "`target_position` of 2 of 6 queries is not the third"
    assert f"warning: the {lost}" in capsys.readouterr().out
    assert f"Note: the {lost}" in (tmp_path / "b" / "README.md").read_text()
    assert run(results, tmp_path / "c", "--extra") == 0
    assert lost not in capsys.readouterr().out + (tmp_path / "c" / "README.md").read_text()


def test_languages_and_domains_can_be_chosen_and_are_told(tmp_path, results, capsys):
    assert run(results, tmp_path / "all") == 0
    assert capsys.readouterr().out.startswith("3 datasets, 6 queries written to ")
    assert run(results, tmp_path / "few", "--languages", "eng-Latn", "--domains", "mining") == 0
    assert capsys.readouterr().out.startswith("1 dataset, ")
    assert [p.parent.name for p in (tmp_path / "few").glob("*/*/*")] == ["mining"] * 3
    assert run(results, tmp_path / "one", "--domains", "game, mining") == 0
    assert len(list((tmp_path / "one").glob("*/*"))) == 3
    assert run(results, tmp_path / "none", "--languages", "eng-Latn,deu-Latn") == 2
    assert "languages: no dataset of deu-Latn in the chosen languages" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
