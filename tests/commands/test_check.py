import re
import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from built_benchmark import write_release
from tiny_checkpoints import save_static

from psibench.cli import main
from psibench.models.checkpoints import resolve_checkpoint
from psibench.tables import Provenance, write_table
from psibench.tables.schemas import QRELS, QUERIES

ROWS = pl.DataFrame({"query-id": ["q1", "q2"], "corpus-id": ["d1", "d2"], "score": [1, 1]})
MADE = Provenance("build", 1, params={"seed": 42, "pair": (1, 2)}, queries_by="people")


@pytest.fixture
def table_path(tmp_path):
    path = tmp_path / "qrels.parquet"
    write_table(ROWS, path, QRELS, provenance=MADE)
    return path


def refusal(capsys, *argv) -> str:
    """Run a command that must end with code 2 and one message without a traceback."""
    assert main([str(word) for word in argv]) == 2
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert printed.err.startswith(f"psibench {argv[0]}: ")
    return printed.err


def test_an_unchanged_table_passes_and_its_provenance_is_printed(table_path, capsys):
    assert main(["check", str(table_path)]) == 0
    printed = capsys.readouterr().out
    assert f"{table_path}: qrels, 2 rows, unchanged since written" in printed
    assert "queries_by: people" in printed
    assert 'params: {"pair": [1, 2], "seed": 42}' in printed


def test_a_table_without_provenance_is_refused(tmp_path, capsys):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "t.parquet")
    message = refusal(capsys, "check", tmp_path / "t.parquet")
    assert "t.parquet: no psibench provenance" in message


def write_config(tmp_path, value, name="my.yaml"):
    path = tmp_path / name
    path.write_text(yaml.safe_dump(value))
    return path


SQUAD = {"recipe": "squad_posq", "source": {"kind": "squad", "paths": ["not/there.json"]}}


@pytest.mark.parametrize("name", ["my.yaml", "my.YML"])
def test_a_valid_config_lists_steps_and_missing_files(tmp_path, capsys, name):
    path = write_config(tmp_path, {"benchmarks": {"s": SQUAD}, "models": ["bm25"]}, name)
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"{path}: valid, but 1 missing",
        "  benchmark s: squad_posq",
        "  model bm25: bm25s",
    ]
    assert "missing: config key benchmarks.s.source: no file 'not/there.json'" in lines[3]
    assert lines[4] == (
        "  paths in a config are relative to the folder that psibench runs in, here "
        f"{Path.cwd()}; {path.name} is in {tmp_path}"
    )


def test_check_prints_text_lengths_and_cuts(tmp_path, capsys):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text("word " * (100 if number else 300) + str(number))
    source = {"kind": "files", "paths": [str(folder)]}
    config = {
        "benchmarks": {"f": {"recipe": "known_item", "source": source}},
        "models": ["bm25", "minilm-first-128"],
    }
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    lines = capsys.readouterr().out.splitlines()
    # 301 + 3 x 101 tokens; 126 are read beside [CLS] and [SEP]: 175 of 604 are not.
    but = "too few documents for a test; texts that give no query"
    assert lines[0].endswith(f"my.yaml: valid, but {but}")
    assert lines.pop(3).startswith("      no known-item query from 4 documents; planned queries ")
    assert lines[2:6] == [
        "    eng-Latn, general: 4 documents; words: median 101, nine in ten below 242, at most 301",
        "      too few documents: with fewer than 30, tests need 160 queries and hold for these "
        "documents only; docs/own-corpus.md shows how many are enough",
        "      tokens (embedded:all-MiniLM-L6-v2): median 101, nine in ten below 242, at most 301",
        "      minilm-first-128 reads 128 tokens: 29% of the text is cut off, the end of "
        "25% of the documents",
    ]


@pytest.mark.parametrize("prompt", ["", "word " * 10])
def test_a_config_says_what_an_embedding_api_is_not_sent(tmp_path, capsys, prompt):
    (tmp_path / "texts").mkdir()
    for number in range(4):
        text = "word " * (100 if number else 300) + str(number)
        (tmp_path / "texts" / f"{number}.txt").write_text(text)
    (tmp_path / "nw").mkdir()
    tokenizer = tmp_path / "nw" / "tokenizer.json"
    shutil.copy(Path(resolve_checkpoint("embedded:all-MiniLM-L6-v2")) / tokenizer.name, tokenizer)
    api = {"backend": "embedding-api", "url": "http://127.0.0.1:9/v1", "model": "m"}
    api |= {"max_tokens": 128, "document_prompt": prompt}
    source = {"kind": "files", "paths": [str(tmp_path / "texts")]}
    config = {
        "benchmarks": {"f": {"recipe": "known_item", "source": source}},
        "models": ["here", "elsewhere"],
        "registry": {
            "here": api | {"tokenizer": str(tokenizer)},
            "elsewhere": api | {"tokenizer": "owner/name"},
        },
    }
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    # 301 + 3 x 101 tokens; 126 are sent beside [CLS] and [SEP], 116 with a prompt of ten:
    # 175 (185) of 604 are not.
    cut = f"{31 if prompt else 29}% of the text is cut off, the end of 25% of the documents"
    assert f"tokens ({tokenizer}): median 101, nine in ten below 242, at most 301" in lines
    assert f"here receives 128 tokens: {cut}" in lines
    why = "its tokenizer owner/name is not on this machine; a run downloads it"
    assert f"elsewhere receives 128 tokens ({why}): about {cut}" in lines


def test_component_models_are_listed_with_their_cut(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("word " * 600)
    source = {"kind": "files", "paths": [str(tmp_path / "a.txt")]}
    first = {"backend": "rerank", "reranker": "embedded-bm25", "first_stage": "all-minilm-l6-v2"}
    passages = {"min_words": 500, "max_words": 700}
    config = {
        "benchmarks": {"b": {"recipe": "known_item", "source": source, "passages": passages}},
        "models": ["bm25", "mine", "both"],
        "registry": {
            "mine": first,
            "both": {"backend": "fusion", "of": ["bm25", "minilm-first-128"]},
        },
    }
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    listed = re.findall(r"(\S+) reads (\d+) tokens.* of the (\S+)", capsys.readouterr().out)
    unit = "passages"
    assert listed == [("all-minilm-l6-v2", "256", unit), ("minilm-first-128", "128", unit)]


def test_check_shows_how_much_static_embeddings_read(tmp_path, capsys):
    save_static(tmp_path / "short", cut_at=24)
    save_static(tmp_path / "whole")
    static = {"backend": "static-embeddings"}
    config = {
        "models": ["short", "whole", "all-minilm-l6-v2"],
        "registry": {
            name: static | {"checkpoint": str(tmp_path / name)} for name in ("short", "whole")
        },
    }
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    found = dict(re.findall(r"  model (\S+): (.*)", capsys.readouterr().out))
    assert found == {
        "short": "static-embeddings, up to 24 tokens",
        "whole": "static-embeddings",
        "all-minilm-l6-v2": "sentence-transformers, up to 256 tokens",
    }


def test_passages_that_no_text_is_cut_into_are_refused(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("\n\n".join(["word " * 150] * 3))
    source = {"kind": "files", "paths": [str(tmp_path / "a.txt")]}
    section = {"recipe": "known_item", "source": source}
    section["passages"] = {"min_words": 200, "max_words": 200}
    path = write_config(tmp_path, {"benchmarks": {"b": section}, "models": ["bm25"]})
    assert "benchmarks.b.passages: no passage has min_words" in refusal(capsys, "check", path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("presets/posir.yml", "one of beir.yaml, colder.yaml, "),
        ("nowhere/posir.yaml", "a YAML file"),
    ],
)
def test_an_unknown_shipped_config_is_refused_with_known_names(name, expected, capsys):
    assert main(["check", f"shipped:{name}"]) == 2
    assert f"no such file; expected {expected}" in capsys.readouterr().err


def test_all_unknown_ids_are_told_at_once(tmp_path, capsys):
    section = {
        "recipe": "controlled",
        "source": {"kind": "python_docs"},
        "choose_configuration": {"llm": "nobody"},
        "generate_positional_query": {"llm": "no-one"},
        "verify": {"rerankers": ["nothing"]},
    }
    registry = {"mine": {"backend": "rerank", "reranker": "none-such"}}
    models = {"models": ["nope", "mine", "bm25", "bm25"], "registry": registry}
    printed = refusal(
        capsys, "check", write_config(tmp_path, {"benchmarks": {"b": section}} | models)
    )
    assert "6 problems:" in printed
    for wrong in (
        "models: unknown model 'nope'. Supported: ",
        "models: named more than once: bm25",
        "benchmarks.b.choose_configuration.llm: unknown language model 'nobody'. Supported: ",
        "benchmarks.b.generate_positional_query.llm: unknown language model 'no-one'.\n",
        "benchmarks.b.verify.rerankers: unknown reranker 'nothing'. Supported: ",
        "registry.mine.reranker: unknown reranker 'none-such'.\n",
    ):
        assert f"my.yaml: config key {wrong}" in printed


def test_all_texts_that_cannot_be_read_are_told_at_once(tmp_path, capsys):
    benchmarks = {}
    for name, data in (("a", b"good\n\xff"), ("b", b"")):
        (tmp_path / f"{name}.txt").write_bytes(data)
        source = {"kind": "files", "paths": [str(tmp_path / f"{name}.txt")]}
        benchmarks[name] = {"recipe": "known_item", "source": source}
    printed = refusal(capsys, "check", write_config(tmp_path, {"benchmarks": benchmarks}))
    assert "2 problems:" in printed
    assert "config key benchmarks.a.source: " in printed
    assert "config key benchmarks.b.source: " in printed


MISSING = {"backend": "sentence-transformers", "checkpoint": "./not/there", "max_tokens": 64}


def test_everything_that_is_missing_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    benchmarks = {
        "s": SQUAD,
        "f": {"recipe": "known_item", "source": {"kind": "files", "paths": ["no/where"]}},
        "p": {"recipe": "posir_release", "source": {"path": "./release"}},
    }
    registry = {"mine": MISSING, "given": {"backend": "runs", "path": "{benchmark}.trec"}}
    config = {"benchmarks": benchmarks, "models": ["mine", "given"], "registry": registry}
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    lines = capsys.readouterr().out.splitlines()
    missing = [line.removeprefix("  missing: ") for line in lines if line.startswith("  missing: ")]
    assert [line.split(":")[:2] for line in missing] == [
        ["config key benchmarks.p.source", " ./release"],
        ["model 'mine'", " checkpoint './not/there'"],
        ["config key benchmarks.f.source", " no/where"],
        ["config key benchmarks.s.source", f" no file 'not/there.json' in {tmp_path}; relative "
         "paths start at the working directory"],
        ["model 'given'", f" no file 'f.trec' in {tmp_path} for f, eng-Latn -> eng-Latn; relative "
         "paths start at the working directory"],
    ]  # fmt: skip


def test_an_invalid_config_also_names_missing_files(tmp_path, capsys):
    wrong = {"backend": "runs", "path": "not-there.trec"}
    config = {"benchmarks": {"s": SQUAD, "t": SQUAD}, "models": ["absent", "m"]}
    path = write_config(tmp_path, config | {"registry": {"m": wrong, "absent": MISSING}})
    printed = refusal(capsys, "check", path)
    assert "model 'm': not-there.trec is used for two runs" in printed
    assert printed.count("model 'absent': checkpoint './not/there'") == 1


MANY = {
    "recipe": "squad_posq",
    "corpora": [
        {"domain": "law", "source": SQUAD["source"]},
        {"domain": "art", "source": SQUAD["source"]},
        {"domain": "law", "language": "cmn-Hans", "source": SQUAD["source"]},
    ],
}


def test_a_config_says_languages_domains_and_pairs(tmp_path, capsys):
    path = write_config(tmp_path, {"benchmarks": {"m": MANY}, "models": ["bm25"]})
    assert main(["check", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:7] == [
        "  benchmark m: squad_posq",
        "    uneven: cmn-Hans does not have art",
        "    eng-Latn: law, art",
        "    cmn-Hans: law",
        "    pairs: eng-Latn in eng-Latn, cmn-Hans in cmn-Hans",
        "  model bm25: bm25s",
    ]


def test_the_models_of_translations_are_those_that_run(tmp_path, capsys):
    """For the default benchmark with shipped translate.models."""
    config = {"models": ["bm25", "mine"], "registry": {"mine": {"backend": "bm25s"}}}
    assert main(["check", str(write_config(tmp_path, config))]) == 0
    assert ", evaluated with bm25\n" in capsys.readouterr().out


def test_check_prints_the_smallest_psi_of_queries(tmp_path, capsys):
    rows = [
        {"_id": f"q{d}-{third}", "text": "what", "pos_corpus_id": f"d{d}", "pos_char_length": 90}
        | {"pos_char_span": [30 * third, 30 * third + 9], "target_position": None}
        | {"cluster": f"page {d % 10}"}
        for d in range(400)
        for third in range(3)
    ]
    path = tmp_path / "queries.parquet"
    frame = pl.DataFrame(rows).with_columns(pos_token_length=pl.lit(None, pl.Int32))
    write_table(frame, path, QUERIES, provenance=MADE)
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    assert (
        "thirds: 1,200 queries of 400 documents in 10 clusters; for a PSI of 0.26 the verdict is "
        "“sensitive to position” in about 8 of 10 cases" in printed
    )


def write_cell(folder, *, judged="d1"):
    write_release(
        folder,
        corpus=pl.DataFrame({"_id": ["d1"], "text": ["go has stones"]}),
        queries=pl.DataFrame(
            {"_id": ["q1"], "text": ["?"], "pos_char_span": [[0, 2]]}
        ).with_columns(pos_char_length=13, pos_token_length=3),
        qrels=pl.DataFrame({"query-id": ["q1"], "corpus-id": [judged], "score": [1]}),
    )


def test_domains_without_queries_are_listed_before_a_run(tmp_path, capsys):
    write_cell(tmp_path / "r" / "eng-Latn" / "game")
    write_cell(tmp_path / "r" / "eng-Latn" / "law", judged="lost")
    write_cell(tmp_path / "r" / "ara-Arab" / "game")
    release = {"recipe": "posir_release", "source": {"path": str(tmp_path / "r")}}
    given = {"benchmarks": {"r": release}, "models": ["bm25"]}
    assert main(["check", str(write_config(tmp_path, given))]) == 0
    state, _, *lines = capsys.readouterr().out.splitlines()
    assert state.endswith("valid, but domains without queries")
    assert lines[:3] == [
        "    uneven: ara-Arab does not have law",
        "    domains without queries, left out of all results (on_empty: drop):",
        "      eng-Latn, law: none of 1 queries has a positive in the corpus; documents: 1",
    ]
    given["benchmarks"]["r"] |= {"on_empty": "fail"}
    message = refusal(capsys, "check", write_config(tmp_path, given))
    assert "benchmarks.r.source: domains without queries: eng-Latn, law: none of 1" in message
