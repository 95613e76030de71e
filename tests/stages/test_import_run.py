"""Foreign runs become run tables, ranked by psibench's rule."""

import json
import logging

import jobs
import polars as pl
import pytest
from language_tables import write_texts

from psibench.config.registry import parse_model
from psibench.errors import InputError
from psibench.formats.import_run import run_import_run
from psibench.tables import read_provenance, read_table
from psibench.tables.schemas import RUN

# Per domain: query -> its positive, with the domain in front of the ids.
ASKED = {
    "game": {"game/1": "game/a", "game/2": "game/b"},
    "mining": {"mining/1": "mining/a"},
}
ROWS = {
    "game": [("1", "b", 0.5), ("1", "a", 0.5), ("1", "c", 0.9), ("2", "b", 1.0)],
    "mining": [("1", "a", 3.0), ("1", "z", 2.0)],
}


def trec(rows) -> str:
    return "".join(f"{q} Q0 {d} 1 {s} run\n" for q, d, s in rows)


def queries_of(folder, asked):
    """Write QUERIES tables; returns their paths in the order of the domains."""
    return [
        write_texts(folder / domain, {}, dict.fromkeys(positives, "?"), positives=positives)[1]
        for domain, positives in asked.items()
    ]


def imported(
    tmp_path,
    path,
    *,
    asked=ASKED,
    judged=None,
    prefix_ids=True,
    top_k=10,
    remove_identical_ids=False,
    **fields,
):
    entry = parse_model({"backend": "runs", "path": f"{tmp_path}/{path}", **fields})
    own = queries_of(tmp_path / "asked", asked)
    jobs.run(
        run_import_run,
        {
            "queries": own,
            "judged": queries_of(tmp_path / "judged", judged) if judged else own,
        },
        {"run": tmp_path / "run.parquet"},
        entry=entry,
        model="m",
        benchmark="b",
        query_lang="eng-Latn",
        corpus_lang="eng-Latn",
        domains=list(asked),
        prefix_ids=prefix_ids,
        top_k=top_k,
        remove_identical_ids=remove_identical_ids,
    )
    return read_table(tmp_path / "run.parquet", RUN).drop("score").rows()


def per_domain(tmp_path, rows=ROWS, *, prefix=False):
    for domain, own in rows.items():
        start = f"{domain}/" if prefix else ""
        text = trec((start + q, start + d, s) for q, d, s in own)
        (tmp_path / f"{domain}.trec").write_text(text)


# Document c first (0.9), then b before a: equal scores, the larger id wins.
EXPECTED = [
    ("game/1", "game/c", 1),
    ("game/1", "game/b", 2),
    ("game/1", "game/a", 3),
    ("game/2", "game/b", 1),
    ("mining/1", "mining/a", 1),
    ("mining/1", "mining/z", 2),
]


@pytest.mark.parametrize("prefix", [False, True])
def test_files_per_domain_get_the_benchmarks_ids(tmp_path, prefix):
    per_domain(tmp_path, prefix=prefix)
    assert imported(tmp_path, "{domain}.trec") == EXPECTED
    record = read_provenance(tmp_path / "run.parquet")
    assert (record["stage"], record["queries_by"]) == ("import_run", "people")
    assert record["inputs"][f"{tmp_path}/game.trec"].startswith("sha256:")
    assert record["params"]["path"] == f"{tmp_path}/{{domain}}.trec"


def whole(extra=()):
    rows = [(f"{d}/{q}", f"{d}/{i}", s) for d, own in ROWS.items() for q, i, s in own]
    return pl.DataFrame([*rows, *extra], schema=["query_id", "doc_id", "score"], orient="row")


def test_one_part_of_a_file_may_cover_all_domains(tmp_path):
    scores: dict[str, dict[str, float]] = {}
    for query, document, score in whole().rows():
        scores.setdefault(query, {})[document] = score
    parts = {"eng-Latn": {"test": scores}, "default": {"test": {}}}
    (tmp_path / "eng-Latn.json").write_text(json.dumps(parts))
    assert imported(tmp_path, "{corpus_lang}.json", part="{query_lang}/test") == EXPECTED


def test_queries_without_results_are_counted_in_the_log(tmp_path, caplog):
    per_domain(tmp_path, {**ROWS, "game": ROWS["game"][:3]})
    with caplog.at_level(logging.WARNING):
        found = imported(tmp_path, "{domain}.trec")
    assert "no results for 1 of 2 queries; they score 0" in caplog.text
    assert "game/2" not in {query for query, _, _ in found}


def test_unknown_queries_are_refused_unless_ignored(tmp_path):
    whole([("game/9", "game/a", 1.0)]).write_parquet(tmp_path / "run0.parquet")
    with pytest.raises(
        InputError, match=r"not among the queries: 'game/9' \(1 in all\); .*ignore_unknown"
    ):
        imported(tmp_path, "run0.parquet")
    assert imported(tmp_path, "run0.parquet", ignore_unknown=True) == EXPECTED


def test_a_run_with_foreign_document_ids_is_refused(tmp_path):
    per_domain(tmp_path, {**ROWS, "mining": [("1", "doc-1", 1.0)]})
    with pytest.raises(InputError, match=r"none of the 1 judged documents.*'mining/doc-1'"):
        imported(tmp_path, "{domain}.trec")


def test_positives_have_their_ids_in_the_corpus_language(tmp_path):
    per_domain(tmp_path)
    named = {d: dict.fromkeys(own, f"{d}/spanish") for d, own in ASKED.items()}
    assert imported(tmp_path, "{domain}.trec", asked=named, judged=ASKED) == EXPECTED
    with pytest.raises(InputError, match="none of the 1 judged documents"):
        imported(tmp_path, "{domain}.trec", asked=ASKED, judged=named)


def test_top_k_counts_documents_in_a_run_of_chunks(tmp_path):
    # Three chunks of one document are before the second document, which must not be lost.
    chunks = [("game/b", 0, 9.0), ("game/b", 5, 8.0), ("game/b", 9, 7.0), ("game/c", 0, 1.0)]
    rows = [
        {"query_id": "game/a", "doc_id": d, "start": s, "end": s + 5, "score": score}
        for d, s, score in chunks
    ]
    pl.DataFrame(rows).write_ndjson(tmp_path / "game.jsonl")
    asked = {"game": {"game/a": "game/b"}}
    found = imported(tmp_path, "{domain}.jsonl", asked=asked, top_k=2)
    assert found == [("game/a", "game/b", 1), ("game/a", "game/c", 2)]


def test_a_document_with_the_querys_id_is_not_ranked(tmp_path):
    # The file ranks the document with the query's id first; top_k counts the others.
    rows = {"game": [("a", "a", 9.0), ("a", "b", 2.0), ("a", "c", 1.0)]}
    per_domain(tmp_path, rows)
    found = imported(
        *(tmp_path, "{domain}.trec"),
        asked={"game": {"game/a": "game/b"}},
        top_k=2,
        remove_identical_ids=True,
    )
    assert found == [("game/a", "game/b", 1), ("game/a", "game/c", 2)]
