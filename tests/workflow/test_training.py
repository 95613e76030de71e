"""Training in the workflow: a real run of a tiny base, and the models that an edit retrains."""

import json

from workflow_project import Project, save_checkpoint, tiny_config, write_squad

from psibench.tables import read_table
from psibench.train.results import TRAINING_TABLE

THIRDS = ("beginning", "middle", "end")
BASE = {
    "checkpoint": "checkpoint",
    "max_tokens": 64,
    "pooling": "mean",
    "learning_rate": 0.01,
    "licence": "mit",
}


def config_of(**base):
    """A pool and a test with other texts, and two distributions over thirds."""
    tiny = tiny_config()
    (section,) = tiny["benchmarks"].values()
    pool = section | {"source": section["source"] | {"paths": ["pool.json"]}, "models": ["bm25"]}
    training = {
        "benchmark": "pool",
        "edges": [1, 100_000],
        "distributions": {"begin": {"beginning": 1}, "uniform": dict.fromkeys(THIRDS, 1)},
        "budget": 3,
        "same_article": None,  # the pool has the texts of the test with one moved word
        "bases": {"net": BASE | base},
        "settings": {"epochs": 1, "batch_size": 4},
    }
    return tiny | {
        "benchmarks": {"pool": pool, "test": section},
        "models": ["bm25"],
        "training": {"t": training},
    }


def test_training_is_evaluated_and_edits_retrain_only_changed_models(tmp_path):
    write_squad(tmp_path / "squad.json")
    found = json.loads((tmp_path / "squad.json").read_text())
    paragraphs = [p for article in found["data"] for p in article["paragraphs"]]
    for number, paragraph in enumerate(paragraphs):
        # The same questions about other texts; the answer moves through the thirds.
        answer = paragraph["qas"][0]["answers"][0]["text"]
        words = [w for w in paragraph["context"].split() if w != answer] + [f"pool{number}"]
        words.insert((number % 3) * len(words) // 3 + 1, answer)
        paragraph["context"] = " ".join(words)
        del paragraph["qas"][1:]
        paragraph["qas"][0]["id"] = f"pool{number}"
        paragraph["qas"][0]["answers"] = [
            {"text": answer, "answer_start": paragraph["context"].index(answer)}
        ]
    (tmp_path / "pool.json").write_text(json.dumps(found))
    save_checkpoint(tmp_path / "checkpoint")
    project = Project(tmp_path)
    project.write_config(config_of())
    project.run()
    results = tmp_path / "results"
    table = read_table(results / "training_table.parquet", TRAINING_TABLE)
    assert set(table["distribution"]) == {"begin", "uniform"}
    assert set(table["benchmark"]) == {"test"}  # not the pool
    compared = table.filter(bucket="all", evidence="all").select("distribution", "balanced")
    assert set(compared.rows()) == {("begin", "uniform"), ("uniform", None)}
    assert '<section id="training">' in (results / "report.html").read_text()
    card = (results / "training/t/models/net-begin-s42/README.md").read_text()
    assert "json has the settings" in card
    assert project.planned() == {}

    found = config_of()
    found["training"]["t"] |= {"same_article": 0.5}
    project.write_config(found)
    assert {"sample_training", "train_model"} <= set(project.planned())
    project.write_config(config_of(licence="apache-2.0", parameters_m=1))
    assert "train_model" not in project.planned()
    project.write_config(config_of(pooling="cls"))
    assert project.planned()["train_model"] == 2
