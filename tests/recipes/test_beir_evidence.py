"""BEIR datasets with positions of their evidence: tiny files in the real layouts."""

import json
from math import log2
from pathlib import Path

import polars as pl
import pytest
import pytrec_eval
from pydantic import ValidationError

from psibench.errors import InputError, MissingError
from psibench.generate.benchmarks import parse_benchmark
from psibench.metrics.ranking import ranking_metrics
from psibench.tables import conform
from psibench.tables.ranking import rank_documents
from psibench.tables.schemas import CORPUS, QRELS, QUERIES
from psibench.text.lengths import count_whitespace_tokens

FIRST = "Zinc lowers fever in mice."
SECOND = "We gave zinc to ten mice (p < .05)."
THIRD = "Zinc lowers fever in mice."


def jsonl(path: Path, *records: dict) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return str(path)


def write_beir(folder: Path, corpus: dict, queries: dict, qrels: list) -> str:
    """Write a folder in BEIR's layout; corpus: id -> (title, text)."""
    jsonl(
        folder / "corpus.jsonl",
        *(
            {"_id": key, "title": title, "text": text, "metadata": {}}
            for key, (title, text) in corpus.items()
        ),
    )
    asked = ({"_id": key, "text": text, "metadata": {}} for key, text in queries.items())
    jsonl(folder / "queries.jsonl", *asked)
    (folder / "qrels").mkdir(exist_ok=True)
    lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in qrels)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines), encoding="utf-8")
    return str(folder)


def section(path: str, evidence: dict, **more):
    given = {"recipe": "beir", "source": {"path": path}, "evidence": evidence}
    return parse_benchmark(given | more)


def files(*paths: str) -> dict:
    return {"kind": "files", "paths": list(paths)}


def build(path: str, evidence: dict, **more):
    built = section(path, evidence, **more).build(count_whitespace_tokens)
    for frame, spec in ((built.corpus, CORPUS), (built.queries, QUERIES), (built.qrels, QRELS)):
        conform(frame, spec, where=spec.name)
    return built


def found(built) -> dict[str, tuple]:
    """Return positive and evidence by query; without a span, its class and the reason."""
    texts = dict(built.corpus.select("_id", "text").iter_rows())
    columns = ("_id", "pos_corpus_id", "pos_char_span", "target_position", "without_place")
    return {
        key: (document, target, reason)
        if span is None
        else (document, texts[document][slice(*span)])
        for key, document, span, target, reason in built.queries.select(columns).iter_rows()
    }


# --- SciFact


def scifact(tmp_path: Path) -> tuple[str, dict]:
    path = write_beir(
        tmp_path / "scifact",
        {
            "4983": ("Zinc", f"{FIRST} {SECOND} {THIRD}"),
            "17": ("Iron", "Iron is heavy. It rusts."),
            "18": ("", "Tin is not."),
        },
        {"1": "zinc lowers fever", "3": "iron is light", "5": "tin", "9": "of another split"},
        [("1", "4983", 1), ("3", "17", 1), ("5", "18", 1)],
    )
    columns = ("id", "evidence_doc_id", "evidence_sentences")
    rows = [(1, "4983", [2]), (3, "", []), (5, "4983", [0]), (9, "4983", [0])]
    records = (dict(zip(columns, row, strict=True)) for row in rows)
    claims = jsonl(tmp_path / "claims_dev.jsonl", *records)
    abstracts = jsonl(
        tmp_path / "abstracts.jsonl",
        {"doc_id": 4983, "title": "", "abstract": [FIRST, SECOND, THIRD]},
        {"doc_id": 17, "title": "", "abstract": ["Iron is heavy.", "It rusts."]},
    )
    return path, {"layout": "scifact", "source": files(claims), "documents": files(abstracts)}


def test_scifacts_sentences_are_located_after_the_title(tmp_path):
    path, evidence = scifact(tmp_path)
    built = build(path, evidence)
    assert found(built) == {
        # The third sentence, which equals the first.
        "1": ("4983", THIRD),
        "3": ("17", "unknown", "not_annotated"),
        "5": ("18", "unknown", "not_in_positive"),
    }
    whole = f"Zinc {FIRST} {SECOND} {THIRD}"
    assert built.corpus.filter(_id="4983")["text"].to_list() == [whole]
    span = built.queries.filter(_id="1")["pos_char_span"].to_list()[0]
    assert span == [len(whole) - len(THIRD), len(whole)]
    # BEIR's qrels of only the split, unchanged.
    assert built.qrels.rows() == [("1", "4983", 1), ("3", "17", 1), ("5", "18", 1)]


# --- FEVER

PAGE = "Café_-LRB-film-RRB-"


def fever(tmp_path: Path) -> tuple[str, str]:
    path = write_beir(
        tmp_path / "fever",
        {
            PAGE: ("Café (film)", "Café ( 2011 ) is a film . It was shot in Philadelphia ."),
            "Paris": ("Paris", "Paris is a city ."),
        },
        {"137334": "Café was shot in Philadelphia.", "7": "Paris is a city.", "8": "Nobody knows."},
        [("137334", PAGE, 1), ("7", "Paris", 1), ("8", "Paris", 1)],
    )
    pages = jsonl(
        tmp_path / "wiki-pages" / "wiki-001.jsonl",
        {"id": "", "text": "", "lines": ""},
        {
            # The pages have composed letters, the claims decomposed ones.
            "id": PAGE,
            "text": "",
            "lines": "0\tCafé -LRB- 2011 -RRB- is a film .\tfilm\tFilm\n"
            "1\tIt was shot in Philadelphia .\tPhiladelphia\tPhiladelphia\n2\t",
        },
        {"id": "Rome", "text": "", "lines": "0\tRome is elsewhere ."},
        {"id": "Paris", "text": "", "lines": "0\tParis was another city ."},
    )
    return path, str(Path(pages).parent)


def test_fevers_numbered_sentences_come_from_its_pages(tmp_path):
    path, pages = fever(tmp_path)
    decomposed = PAGE.replace("é", "e\u0301")
    columns = ("id", "evidence_wiki_url", "evidence_sentence_id")
    # a row for each sentence; claims without evidence have a row without a page
    rows = [(137334, decomposed, 1), (137334, decomposed, 1), (7, "Paris", 0), (8, "", -1)]
    records = (dict(zip(columns, row, strict=True)) for row in rows)
    claims = jsonl(tmp_path / "paper_test.jsonl", *records)
    evidence = {"layout": "fever", "source": files(claims), "documents": files(pages)}
    assert found(build(path, evidence)) == {
        "137334": (PAGE, "It was shot in Philadelphia"),
        "7": ("Paris", "unknown", "not_found"),
        "8": ("Paris", "unknown", "not_annotated"),
    }


# --- HotpotQA

HOTPOT = {
    "id": "5a8b57f25542995d1e6f1371",
    "question": "Are both rivers?",
    "supporting_facts": {"title": ["Elbe", "Alps"], "sent_id": [1, 0]},
    "context": {
        "title": ["Rhine", "Alps", "Elbe"],
        "sentences": [
            ["The Rhine is a river."],
            ["The Alps are mountains.", " They are high."],
            ["The Elbe has 1,094 km.", " It is a river."],
        ],
    },
}


def test_hotpotqas_first_fact_is_located_by_its_title(tmp_path):
    path = write_beir(
        tmp_path / "hotpotqa",
        {
            "12": ("Alps", "The Alps are mountains. They are high."),
            "39": ("Elbe", "The Elbe has 1,094 km. It is a river."),
            "40": ("Rhine", "The Rhine is a river."),
        },
        {HOTPOT["id"]: HOTPOT["question"]},
        [(HOTPOT["id"], "12", 1), (HOTPOT["id"], "39", 1)],
    )
    evidence = {"layout": "hotpotqa", "source": files(jsonl(tmp_path / "hotpot.jsonl", HOTPOT))}
    for titles in (True, False):
        built = build(path, evidence, titles=titles)
        assert found(built) == {HOTPOT["id"]: ("39", "It is a river.")}
        assert built.qrels.height == 2


# --- Climate-FEVER, and the user's quotes


@pytest.mark.parametrize("labels", [("SUPPORTS", "NOT_ENOUGH_INFO"), (0, 2)])
def test_climate_fevers_evidence_is_located_by_its_words(tmp_path, labels):
    path = write_beir(
        tmp_path / "climate-fever",
        {"Polar_bear": ("Polar bear", "Polar bears live on ice. The ice melts. They swim.")},
        {"0": "Ice melts.", "1": "Bears fly."},
        [("0", "Polar_bear", 1), ("1", "Polar_bear", 1)],
    )
    says, nothing = labels

    def claim(number, *evidence):
        found = [
            {"article": "Polar bear", "evidence_label": label, "evidence": text}
            for label, text in evidence
        ]
        return {"claim_id": number, "claim": "", "evidences": found}

    claims = jsonl(
        tmp_path / "climate-fever-dataset-r1.jsonl",
        claim(
            "0",
            (nothing, "Polar bears live on ice."),
            (says, '"They swim".'),
            (says, "The ice melts."),
        ),
        claim("1", (nothing, "They swim.")),
    )
    assert found(build(path, {"layout": "climate-fever", "source": files(claims)})) == {
        "0": ("Polar_bear", "The ice melts. They swim."),
        "1": ("Polar_bear", "unknown", "not_annotated"),
    }


def test_quotes_give_the_evidence_of_other_datasets(tmp_path):
    path = write_beir(
        tmp_path / "mine",
        {"d1": ("", "雨が降る。道が濡れる。傘をさす。"), "d2": ("", "Nothing here.")},
        {"a": "道は?", "b": "which?"},
        [("a", "d1", 2), ("a", "d2", 0), ("b", "d2", 1)],
    )
    quotes = jsonl(
        tmp_path / "quotes.jsonl",
        {"query_id": "a", "document_id": "d1", "quotes": "道が濡れる。"},
        {"query_id": "b", "document_id": "d2", "quotes": ["not", "there"]},
    )
    built = build(path, {"layout": "quotes", "source": files(quotes)})
    assert found(built) == {
        "a": ("d1", "道が濡れる。"),
        "b": ("d2", "unknown", "not_found"),
    }
    assert built.qrels.filter(score=2).rows() == [("a", "d1", 2)]


# --- MS MARCO


def test_msmarcos_passage_is_located_in_the_relevant_documents(tmp_path):
    """Write documents of the document ranking, and passages of the passage ranking."""
    path = write_beir(
        tmp_path / "documents",
        {
            "D1": ("Zinc", "Zinc is a metal.\n\nZinc boils at  907\n°C, which is low. End."),
            "D2": ("", "Changed since the passages were taken."),
            "D3": ("", "Nobody asks about it. Zinc boils at 907 °C, which is low."),
            "D4": ("", "Also about zinc."),
        },
        {"10": "when does zinc boil", "11": "what was there", "12": "of no passage"},
        [("10", "D4", 1), ("10", "D1", 1), ("11", "D2", 1), ("12", "D2", 1)],
    )
    passages = jsonl(
        tmp_path / "passages.jsonl",
        {"_id": "7", "title": "", "text": "A passage that nobody asks about."},
        {"_id": "8", "title": "", "text": "Zinc boils at 907 °C, which is low."},
        {"_id": "9", "title": "", "text": "This was there."},
    )
    # Like MTEB's: grades are floats.
    rows = [("10", "8", 1.0), ("11", "9", 1.0), ("12", "8", 0.0), ("13", "8", 1.0)]
    columns = ("query-id", "corpus-id", "score")
    judged = jsonl(tmp_path / "dev.jsonl", *(dict(zip(columns, row, strict=True)) for row in rows))
    evidence = {"layout": "msmarco", "source": files(judged), "documents": files(passages)}
    built = build(path, evidence)
    assert found(built) == {
        # in the second document, with other white space
        "10": ("D1", "Zinc boils at  907\n°C, which is low."),
        "11": ("D2", "unknown", "not_found"),
        "12": ("D2", "unknown", "not_annotated"),
    }
    alone = build(path, evidence, relevant_only=True, titles=False)
    assert built.corpus["_id"].to_list() == ["D1", "D2", "D3", "D4"]
    assert alone.corpus["_id"].to_list() == ["D1", "D2", "D4"]
    assert found(alone) == found(built)
    assert alone.qrels.rows() == built.qrels.rows()


# --- Evidence that occurs several times in its document

CONTENTS = "Contents: zinc lowers fever in mice. Iron rusts."


@pytest.mark.parametrize("layout", ["quotes", "climate-fever", "msmarco", "scifact"])
@pytest.mark.parametrize("is_twice", [True, False])
def test_evidence_that_occurs_twice_has_no_span(tmp_path, layout, is_twice):
    # In a table of contents and at the end: the intended position is unknown.
    text = f"{CONTENTS if is_twice else ''} Filler. {FIRST}".strip()
    path = write_beir(
        tmp_path / "b",
        {"4983": ("Zinc", text), "17": ("", "Iron is heavy.")},
        {"1": "zinc lowers fever", "2": "is iron heavy"},
        [("1", "4983", 1), ("2", "17", 1)],
    )
    both = [("1", "4983", "Zinc", FIRST), ("2", "17", "17", "Iron is heavy.")]
    records = {
        "quotes": [{"query_id": q, "document_id": d, "quotes": t} for q, d, _, t in both],
        "climate-fever": [
            {
                "claim_id": q,
                "evidences": [{"article": name, "evidence": t, "evidence_label": "SUPPORTS"}],
            }
            for q, _, name, t in both
        ],
        "msmarco": [{"query-id": q, "corpus-id": f"P{q}", "score": 1} for q, *_ in both],
        "scifact": [
            {"id": q, "evidence_doc_id": d, "evidence_sentences": [0]} for q, d, *_ in both
        ],
    }
    documents = {
        "msmarco": [{"_id": f"P{q}", "text": t} for q, _, _, t in both],
        "scifact": [{"doc_id": d, "abstract": [t]} for _, d, _, t in both],
    }
    given = {"layout": layout, "source": files(jsonl(tmp_path / "e.jsonl", *records[layout]))}
    if layout in documents:
        given["documents"] = files(jsonl(tmp_path / "d.jsonl", *documents[layout]))
    located = found(build(path, given))
    assert located["2"] == ("17", "Iron is heavy.")
    assert located["1"] == (("4983", "unknown", "ambiguous") if is_twice else ("4983", FIRST))


# --- The hub

MTEB_CARD = """---
configs:
- config_name: default
  data_files:
  - {split: train, path: qrels/train.jsonl}
  - {split: test, path: qrels/test.jsonl}
- config_name: corpus
  data_files:
  - {split: corpus, path: corpus.jsonl}
- config_name: queries
  data_files:
  - {split: queries, path: queries.jsonl}
---
"""
"""Configurations in the card of mteb/scifact; other datasets have the same layout."""


def test_mtebs_hub_dataset_equals_beirs_folder(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    path, evidence = scifact(tmp_path)
    expected = build(path, evidence)
    folder = tmp_path / "mteb"
    for name in ("corpus.jsonl", "queries.jsonl"):
        records = map(json.loads, (Path(path) / name).read_text().splitlines())
        jsonl(
            folder / name, *({k: v for k, v in one.items() if k != "metadata"} for one in records)
        )
    rows = [("1", "4983", 1.0), ("3", "17", 1.0), ("5", "18", 1.0)]
    for split, judged in (("test", rows), ("train", [("9", "4983", 1.0)])):
        columns = ("query-id", "corpus-id", "score")
        records = (dict(zip(columns, row, strict=True)) for row in judged)
        jsonl(folder / "qrels" / f"{split}.jsonl", *records)
    (folder / "README.md").write_text(MTEB_CARD)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    load, asked = datasets.load_dataset_builder, set()

    def from_folder(name, config, *, data_files, revision):
        asked.add((name, config, data_files, revision))
        return load(str(folder), config)

    monkeypatch.setattr(datasets, "load_dataset_builder", from_folder)
    source = {"path": "mteb/scifact", "revision": "abc"}
    built = build("", evidence, source=source)
    for name in ("corpus", "queries", "qrels"):
        assert getattr(built, name).equals(getattr(expected, name))
    configs = (None, "corpus", "queries")
    assert asked == {("mteb/scifact", config, None, "abc") for config in configs}


# --- Refused, dropped and recorded items


def test_a_query_without_a_positive_in_the_corpus_is_dropped(tmp_path):
    path, evidence = scifact(tmp_path)
    with (Path(path) / "qrels" / "test.tsv").open("a") as file:
        file.write("\n9\t404\t1")
    built = build(path, evidence)
    assert built.dropped.select("item_id", "doc_id", "reason").rows() == [
        ("9", "404", "positive_missing")
    ]
    assert "9" not in built.queries["_id"]


@pytest.mark.parametrize("relevant_only", [False, True])
def test_missing_relevant_documents_count_as_in_trec_eval(tmp_path, relevant_only):
    path, evidence = scifact(tmp_path)
    more = [("1", "404", 2), ("1", "405", 1), ("3", "406", 1), ("3", "407", 0), ("9", "408", 1)]
    with (Path(path) / "qrels" / "test.tsv").open("a") as file:
        file.writelines("\n" + "\t".join(map(str, row)) for row in more)
    built = build(path, evidence, relevant_only=relevant_only)
    judged = [("1", "4983", 1), ("3", "17", 1), ("5", "18", 1), *more]
    ranking = {"1": ["17", "4983"], "3": ["17", "18"], "5": ["4983", "18"]}
    measured = pytrec_eval.RelevanceEvaluator(
        {query: {doc: grade for q, doc, grade in judged if q == query} for query in ranking},
        {"ndcg_cut.10", "recall.10"},
    ).evaluate({q: {doc: 9.0 - i for i, doc in enumerate(docs)} for q, docs in ranking.items()})
    rows = [(q, doc, 9.0 - i) for q, docs in ranking.items() for i, doc in enumerate(docs)]
    found = pl.DataFrame(rows, schema=["query_id", "doc_id", "score"], orient="row")
    scores = ranking_metrics(
        rank_documents(found), built.qrels, metrics=["ndcg@10", "recall@10"]
    ).rows()
    assert scores == [
        (query, pytest.approx(one["ndcg_cut_10"]), pytest.approx(one["recall_10"]))
        for query, one in sorted(measured.items())
    ]
    # By hand: grade 1 at rank 2 of 2, 1 and 1; query 9 has no results.
    ideal = 2 + 1 / log2(3) + 1 / log2(4)
    assert scores[0][1:] == (pytest.approx((1 / log2(3)) / ideal), pytest.approx(1 / 3))
    assert built.dropped["item_id"].to_list() == ["9"]


def test_evidence_of_another_dataset_is_refused(tmp_path):
    path, evidence = scifact(tmp_path)
    other = jsonl(
        tmp_path / "other.jsonl", {"id": 77, "evidence_doc_id": "", "evidence_sentences": []}
    )
    with pytest.raises(InputError, match=r"no evidence for any of the 3 queries.*not_annotated"):
        build(path, evidence | {"source": files(other)})


def test_a_record_in_another_layout_is_refused(tmp_path):
    path, evidence = scifact(tmp_path)
    with pytest.raises(InputError, match=r"claims_dev.jsonl, line 1: not in the layout fever"):
        build(path, evidence | {"layout": "fever"})
    with pytest.raises(InputError, match=r"line 1: not in the layout hotpotqa .*KeyError"):
        build(path, {"layout": "hotpotqa", "source": evidence["source"]})


def test_only_numbered_sentences_need_documents():
    with pytest.raises(ValidationError, match="layout fever needs `documents`"):
        section("x", {"layout": "fever", "source": files("a.jsonl")})
    with pytest.raises(ValidationError, match="layout quotes has no `documents`"):
        section(
            "x", {"layout": "quotes", "source": files("a.jsonl"), "documents": files("b.jsonl")}
        )


def test_a_folder_without_its_files_is_refused(tmp_path):
    path, evidence = scifact(tmp_path)
    assert [Path(one).name for one in section(path, evidence).files()] == [
        *("corpus.jsonl", "queries.jsonl", "test.tsv"),
        *("claims_dev.jsonl", "abstracts.jsonl"),
    ]
    (Path(path) / "qrels" / "test.tsv").unlink()
    with pytest.raises(MissingError, match=r"qrels/test.tsv: no such file"):
        section(path, evidence).files()
    with pytest.raises(MissingError, match="no such folder"):
        section("./nowhere", evidence).files()
    remote = section("mteb/scifact", evidence | {"documents": {"kind": "hub", "name": "a/b"}})
    assert [Path(one).name for one in remote.files()] == ["claims_dev.jsonl"]
    assert remote.revisions() == {
        "dataset:mteb/scifact": "not pinned",
        "dataset:a/b": "not pinned",
    }
    assert remote.queries_by == "people"


@pytest.mark.parametrize("setting", ["auto", "remove", "keep"])
def test_a_relevant_document_with_the_querys_id_needs_a_setting(tmp_path, setting):
    path = write_beir(tmp_path / "b", {"1": ("", FIRST)}, {"1": "zinc"}, [("1", "1", 1)])
    quotes = jsonl(tmp_path / "q.jsonl", {"query_id": "1", "document_id": "1", "quotes": FIRST})
    given = {"layout": "quotes", "source": files(quotes)}
    if setting != "auto":
        assert build(path, given, identical_ids=setting).queries.height == 1
        return
    with pytest.raises(InputError, match=r"'1' \(1 in all\).*Set `identical_ids: keep`"):
        build(path, given)


@pytest.mark.parametrize("wrong", [None, "", 7])
def test_a_query_without_text_and_repeated_judgements_are_left_out(tmp_path, wrong):
    path, evidence = scifact(tmp_path)
    with (Path(path) / "queries.jsonl").open("a") as file:
        file.write("\n" + json.dumps({"_id": "8", "text": wrong}))
    with (Path(path) / "qrels" / "test.tsv").open("a") as file:
        file.write("\n8\t17\t1\n3\t17\t1")  # and a repeated pair
    built = build(path, evidence)
    assert built.dropped.select("unit", "item_id", "reason").rows() == [
        ("queries", "8", "wrong_record"),
        ("qrels", "3 17 2", "repeated_row"),
    ]
    assert built.queries["_id"].to_list() == ["1", "3", "5"]
    assert built.qrels.rows() == [("1", "4983", 1), ("3", "17", 1), ("5", "18", 1)]
    strict = {"path": path, "max_bad_share": 0}
    with pytest.raises(InputError, match=r"queries.jsonl, line 5"):
        build(path, evidence, source=strict)
    with (Path(path) / "qrels" / "test.tsv").open("a") as file:
        file.write("\n3\t17\t0")
    with pytest.raises(InputError, match=r"'3', document '17' is graded 2 times: 1, 0"):
        build(path, evidence)
