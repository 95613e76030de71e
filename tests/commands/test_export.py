"""A release read, built and exported is the release it was."""

import polars as pl
import pytest
import yaml
from built_benchmark import write_release

from psibench.cli import main
from psibench.config.sources import PosirReleaseSource
from psibench.formats.posir import COLUMNS
from psibench.generate.loaders.posir_release import PosirRelease
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.lengths import count_whitespace_tokens

PLACES = [("ara-Arab", "game"), ("eng-Latn", "game"), ("eng-Latn", "mining")]
SOURCE = Provenance(
    stage="build",
    stage_version=2,
    queries_by="llm:writer-1",
    llm_backend="openai",
    revisions={"dataset:owner/release": "abc123"},
)


def release(root):
    """Three datasets whose ids repeat between domains; Arabic spans are those of the English."""
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


def built(root, results, *, prefix_ids=True, places=PLACES):
    """The tables of results/ for a release."""
    for language, domain in places:
        section = PosirRelease(
            recipe="posir_release",
            source=PosirReleaseSource(path=str(root)),
            language=language,
            domain=domain,
            prefix_ids=prefix_ids,
        )
        made = section.build(count_whitespace_tokens)
        folder = results / "data" / language / domain
        for name, spec in (("corpus", CORPUS), ("queries", QUERIES), ("qrels", QRELS)):
            frame = getattr(made, name)
            write_table(frame, folder / f"{name}.parquet", spec, provenance=SOURCE)
    return results


def tables_of(root):
    return {
        (language, domain, table): pl.read_parquet(
            root / language / domain / table / "test.parquet"
        )
        for language, domain in PLACES
        for table in COLUMNS
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


def test_ids_stay_in_all_languages_where_one_language_has_an_id_without_the_domain(
    tmp_path, results
):
    path = results / "data" / "ara-Arab" / "game" / "corpus.parquet"
    corpus = pl.read_parquet(path)
    odd = corpus.with_columns(_id=pl.Series(["game/9", "other"]))
    write_table(odd, path, CORPUS, provenance=SOURCE)
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
        f"{language}-{domain}-{table}" for language, domain in PLACES for table in COLUMNS
    ]  # an id may be in two domains: no config has two
    assert "| eng-Latn | mining | 2 | 2 | 2 |" in body
    assert "| all | 3 datasets | 6 | 6 | 6 |" in body
    assert "Queries by: llm:writer-1." in body
    assert "dataset:owner/release: abc123" in body
    assert "stages build 2" in body
    assert "cc-by-4.0, as told by who exported it" in body
    assert card["license"] == "cc-by-4.0"


def test_a_folder_that_holds_something_is_not_written_to(tmp_path, results, capsys):
    (tmp_path / "out").mkdir()
    assert run(results, tmp_path / "out") == 0  # empty: taken
    before = sorted(tmp_path.rglob("*"))
    assert run(results, tmp_path / "out") == 2
    assert "is there and not empty" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_an_incomplete_benchmark_leaves_nothing_behind(tmp_path, results, capsys):
    (results / "data" / "eng-Latn" / "mining" / "qrels.parquet").unlink()
    assert run(results, tmp_path / "out") == 2
    assert (
        "mining: no qrels; make what is lacking with `psibench run CONFIG "
        in capsys.readouterr().err
    )
    damaged = results / "data" / "eng-Latn" / "mining" / "qrels.parquet"
    damaged.write_bytes((results / "data/eng-Latn/game/corpus.parquet").read_bytes())
    assert run(results, tmp_path / "out") == 2
    assert "missing columns: query-id, corpus-id" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["release", "results"]


def test_lengths_that_the_layout_needs_and_the_benchmark_lacks_are_named(tmp_path, results, capsys):
    path = results / "data" / "eng-Latn" / "game" / "queries.parquet"
    unknown = pl.read_parquet(path).with_columns(pos_token_length=pl.lit(None, pl.Int32))
    write_table(unknown, path, QUERIES, provenance=SOURCE)
    assert run(results, tmp_path / "out") == 2
    assert "2 queries have no pos_token_length" in capsys.readouterr().err


def test_evidence_that_is_no_one_span_needs_extra_and_survives_the_round_trip(
    tmp_path, results, capsys
):
    path = results / "data" / "eng-Latn" / "game" / "queries.parquet"
    queries = pl.read_parquet(path).with_columns(
        pos_char_span=pl.lit(None, pl.Array(pl.Int32, 2)),
        target_position=pl.Series(["mixed", None]),
        positions=pl.Series([["beginning", "end"], None]),
        pos_char_spans=pl.Series([None, [[0, 2], [6, 8]]], dtype=pl.List(pl.List(pl.Int64))),
    )
    write_table(queries, path, QUERIES, provenance=SOURCE)
    assert run(results, tmp_path / "plain") == 2
    assert "evidence of 2 queries is not one span" in capsys.readouterr().err
    assert run(results, tmp_path / "out", "--extra") == 0
    built(tmp_path / "out", tmp_path / "again")
    again = pl.read_parquet(tmp_path / "again/data/eng-Latn/game/queries.parquet")
    assert again.select(queries.columns).equals(pl.read_parquet(path))


def aimed(results):
    """Declare positions that are not the thirds of the spans' middles, and another positive."""
    path = results / "data" / "eng-Latn" / "game" / "queries.parquet"
    # q2: [0, 3) of 12, beginning; q1: [2, 9) of 8, its middle in the end
    queries = pl.read_parquet(path).with_columns(target_position=pl.Series(["end", "middle"]))
    write_table(queries, path, QUERIES, provenance=SOURCE)
    return queries


def test_declared_positions_and_positives_survive_the_round_trip_with_extra(tmp_path, results):
    queries = aimed(results)
    # q1 gets a second positive of the same grade that would be taken by its length
    place = results / "data" / "eng-Latn" / "game"
    more = pl.read_parquet(place / "qrels.parquet")
    more = pl.concat([more, more.with_columns(pl.col("corpus-id").reverse(), score=3)])
    more = more.with_columns(pl.col("score").cast(pl.Int32))
    write_table(more, place / "qrels.parquet", QRELS, provenance=SOURCE)
    assert run(results, tmp_path / "out", "--extra") == 0
    built(tmp_path / "out", tmp_path / "again", prefix_ids=True)
    for language, domain in PLACES:
        name = f"data/{language}/{domain}/queries.parquet"
        before, after = pl.read_parquet(results / name), pl.read_parquet(tmp_path / "again" / name)
        assert after.equals(before), name
    assert queries["pos_corpus_id"].to_list() == ["game/10", "game/9"]
    # without, the qrels decide and positions are left to the spans
    assert run(results, tmp_path / "plain") == 0
    built(tmp_path / "plain", tmp_path / "third", prefix_ids=True)
    lost = pl.read_parquet(tmp_path / "third" / "data/eng-Latn/game/queries.parquet")
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
    assert "languages: no dataset of deu-Latn" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
