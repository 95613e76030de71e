"""The target `probes` on a tiny benchmark: a real run, and the jobs that an edit reruns."""

import json
import random

from workflow_project import WORDS, Project, save_checkpoint, tiny_config

from psibench.probes.tables import PROBE_TABLE
from psibench.tables import read_table


def write_sentences(path, *, n_contexts: int = 6) -> None:
    """Write SQuAD-format data in sentences of six words; the question is about the third."""
    paragraphs = []
    for number in range(n_contexts):
        words = [WORDS[(number * 7 + k) % len(WORDS)] for k in range(72)]
        words[14] = f"name{number}"
        pieces = [f"{' '.join(words[k : k + 6]).capitalize()} ." for k in range(0, 72, 6)]
        context = " ".join(pieces)
        answer = {"text": f"name{number}", "answer_start": context.index(f"name{number}")}
        question = {"id": f"q{number}", "question": f"what is name{number}", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    path.write_text(json.dumps({"version": "test", "data": [{"paragraphs": paragraphs}]}))


def test_probes_run_on_vector_models_and_edits_rerun_one_probe(tmp_path):
    write_sentences(tmp_path / "squad.json")
    save_checkpoint(tmp_path / "checkpoint")
    project = Project(tmp_path)
    probes = {"names": ["insertion", "moving", "reversal", "regression"], "n_documents": 4}
    config = tiny_config() | {"models": ["bm25", "one"], "probes": probes}
    project.write_config(config)
    project.run("probes")
    found = read_table(tmp_path / "results" / "probe_table.parquet", PROBE_TABLE)
    assert set(found["model"]) == {"one"}  # bm25 has no vectors
    assert set(found["probe"]) == set(probes["names"])
    assert found.filter(probe="insertion")["n_documents"].max() == 4
    assert found.filter(probe="reversal", measure="ndcg@10")["n_documents"].max() == 6
    assert "PSI at equal documents" in (tmp_path / "results" / "probes.html").read_text()
    assert project.planned("probes") == {}

    models = ["bm25", "one", "minilm-static"]
    project.write_config(config | {"models": models, "probes": probes | {"places": 4}})
    # Four of the new model, and the one probe that uses `places`.
    assert project.planned("probes")["probe"] == 4 + 1


def test_documents_without_queries_are_probed_but_not_evaluated(tmp_path):
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=n)) for n in (4, 30, 31, 32, 33)]
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    (tmp_path / "texts.jsonl").write_text(lines)
    save_checkpoint(tmp_path / "checkpoint")
    project = Project(tmp_path)
    source = {"kind": "files", "paths": ["texts.jsonl"]}
    config = tiny_config() | {
        "benchmarks": {"texts": {"recipe": "documents", "source": source, "words": [4, 33]}},
        "models": ["one"],
        "probes": {"names": ["segments"], "segments": [[0.333, 0.666]]},
    }
    project.write_config(config)
    project.run()
    found = read_table(tmp_path / "results" / "probe_table.parquet", PROBE_TABLE)
    assert found["n_documents"].unique().to_list() == [3]
    assert not (tmp_path / "results" / "psi_table.csv").exists()
    assert project.planned() == {}
