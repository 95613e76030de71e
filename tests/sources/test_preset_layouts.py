"""The hub datasets that shipped presets name, as small folders, read as the presets say.

Layouts follow the hub's listings of files: README.md with its configurations where there are any.
"""

import gzip
import json
import re
from pathlib import Path

import polars as pl
import pytest
import yaml
from pydantic import TypeAdapter

from psibench.config.paths import CONFIG_FOLDER
from psibench.config.sources import HubSource
from psibench.generate.loaders.colder import Colder
from psibench.generate.loaders.fineweb_posq_release import FinewebPosqRelease
from psibench.sources.documents import read_documents
from psibench.sources.evidence import Evidence, read_evidence
from psibench.sources.squad import read_hub_questions

pytestmark = pytest.mark.usefixtures("folder")


def industry(language, quality, number, n):
    """A file of one of IndustryCorpus2's parts: text, lang, quality_score, _id, statistics."""
    lang = {"english": "en", "chinese": "zh"}[language]
    return {
        f"{language}/{quality}/rank_{number:05}.parquet": [
            {
                "text": f"{language} {quality} {number} {i}",
                "lang": lang,
                "quality_score": 4.5,
                "_id": f"{number}{i}",
                "statistics": {"alnum": 0.7},
            }
            for i in range(n)
        ]
    }


def web(*paths):
    """Files of FineWeb's columns, two records each."""
    return {
        path: [
            {"text": f"{path} {i}", "id": f"<urn:{path}:{i}>", "language_score": 0.9}
            for i in range(2)
        ]
        for path in paths
    }


def question(key, context, answer):
    start = context.find(answer)
    answers = {"text": [answer], "answer_start": [start]}
    return {"id": key, "title": "t", "question": "?", "context": context, "answers": answers}


def configs(**paths):
    """README.md with configurations, each with its splits and the files of these."""
    listed = [
        {
            "config_name": name.replace("__", "-").replace("_dot_", "."),
            "data_files": [{"split": split, "path": path} for split, path in splits.items()],
        }
        for name, splits in paths.items()
    ]
    return f"---\n{yaml.safe_dump({'configs': listed})}---\n"


OTHER_BIASES = ("brevity", "literal", "repetition")
LAYOUTS = {
    # 4 + 4 + 4 Chinese records come before 3 + 1 + 9 English ones.
    r"BAAI/IndustryCorpus2_\w+": (
        None,
        industry("chinese", "high", 1, 4)
        | industry("chinese", "low", 2, 4)
        | industry("chinese", "middle", 3, 4)
        | industry("english", "high", 1017, 3)
        | industry("english", "low", 1683, 1)
        | industry("english", "middle", 1932, 9),
    ),
    "HuggingFaceFW/fineweb(-edu)?": (
        configs(default={"train": "data/*/*"}, sample__10BT={"train": "sample/10BT/*"}),
        web(
            "data/CC-MAIN-2013-20/000_00000.parquet",
            "sample/100BT/000_00000.parquet",
            "sample/10BT/000_00000.parquet",
            "sample/10BT/001_00000.parquet",
        ),
    ),
    "opencsg/Fineweb-Edu-Chinese-V2.1": (
        None,
        web("2_3/00000.parquet", "3_4/00000.parquet", "4_5/00000.parquet"),
    ),
    "wikimedia/wikipedia": (
        configs(
            **{
                f"20231101_dot_{code}": {"train": f"20231101.{code}/*"}
                for code in ("de", "en", "simple")
            }
        ),
        {
            f"20231101.{code}/train-{n:05}-of-00002.parquet": [
                {"id": f"{code}{n}", "url": "u", "title": "t", "text": f"{code} {n}"}
            ]
            for code in ("de", "en", "simple")
            for n in range(2)
        },
    ),
    "proj-persona/PersonaHub": (
        configs(math={"train": "math.jsonl"}, persona={"train": "persona.jsonl"}),
        {
            "instruction.jsonl": [{"input persona": "no", "synthesized text": "no"}],
            "math.jsonl": [{"input persona": "no", "synthesized text": "no"}],
            "persona.jsonl": [{"persona": "A baker"}, {"persona": "A judge"}],
        },
    ),
    "rajpurkar/squad_v2": (
        configs(
            squad_v2={"train": "squad_v2/train-*", "validation": "squad_v2/validation-*"},
        ),
        {
            "squad_v2/train-00000-of-00001.parquet": [question("q1", "Ada wrote it.", "Ada")],
            "squad_v2/validation-00000-of-00001.parquet": [question("q2", "No. It.", "It")],
        },
    ),
    "NovaSearch/FineWeb-PosQ": (
        None,
        {
            "train.jsonl": [
                {"question": "Who?", "content": "Ada wrote.", "span_class": ["beginning"]},
            ]
        },
    ),
    "mohsenfayyaz/ColDeR": (
        None,
        {
            f"test/{name}.jsonl": [
                {"query": "Who?", "document_1": f"{name} a.", "document_2": f"a. {name}"}
            ]
            for name in ("foil", "position_bias", *(f"{b}_bias" for b in OTHER_BIASES))
        },
    ),
    "allenai/scifact": (  # the hub's own conversion: a folder a configuration and split
        None,
        {
            "claims/train/0000.parquet": [
                {"id": 0, "evidence_doc_id": "9", "evidence_sentences": [0]}
            ],
            "claims/validation/0000.parquet": [
                {"id": 1, "evidence_doc_id": "7", "evidence_sentences": [1]}
            ],
            "corpus/train/0000.parquet": [{"doc_id": 7, "title": "t", "abstract": ["a.", "b."]}],
        },
    ),
    "fever/fever": (
        None,
        {
            "v1.0/paper_dev/0000.parquet": [
                {"id": 0, "evidence_wiki_url": "B", "evidence_sentence_id": 0}
            ],
            "v1.0/paper_test/0000.parquet": [
                {"id": 1, "evidence_wiki_url": "A", "evidence_sentence_id": 1}
            ],
            "wiki_pages/partial-wikipedia_pages/0000.parquet": [
                {"id": "A", "text": "a b", "lines": "0\ta.\tx\n1\tb."}
            ],
        },
    ),
    "hotpotqa/hotpot_qa": (
        configs(
            distractor={"train": "distractor/train-*", "validation": "distractor/validation-*"},
            fullwiki={"validation": "fullwiki/validation-*"},
        ),
        {
            f"{name}-00000-of-00001.parquet": [
                {
                    "id": "1",
                    "supporting_facts": {"title": [name], "sent_id": [1]},
                    "context": {"title": [name], "sentences": [["a.", "b."]]},
                }
            ]
            for name in ("distractor/train", "distractor/validation", "fullwiki/validation")
        },
    ),
    "tdiggelm/climate_fever": (
        configs(default={"test": "data/test-*"}),
        {
            "data/test-00000-of-00001.parquet": [
                {
                    "claim_id": "1",
                    "evidences": [{"article": "A", "evidence": "b.", "evidence_label": 0}],
                }
            ]
        },
    ),
    "mteb/msmarco": (
        configs(
            default={split: f"qrels/{split}.jsonl" for split in ("train", "dev", "test")},
            corpus={"corpus": "corpus.jsonl"},
            queries={"queries": "queries.jsonl"},
        ),
        {
            "corpus.jsonl": [
                {"_id": "7", "title": "", "text": "a."},
                {"_id": "8", "title": "", "text": "b."},
            ],
            "queries.jsonl": [{"_id": "0", "text": "a?"}, {"_id": "1", "text": "b?"}],
        }
        | {
            f"qrels/{split}.jsonl": [{"query-id": query, "corpus-id": passage, "score": 1.0}]
            for split, query, passage in (
                ("train", "0", "7"),
                ("dev", "1", "8"),
                ("test", "0", "8"),
            )
        },
    ),
    "ccdv/pubmed-summarization": (
        configs(
            section={"train": "section/train-*"},
            document={"train": "document/train-*", "validation": "document/validation-*"},
        ),
        {
            f"{name}-00000-of-00001.parquet": [{"article": "long", "abstract": name}]
            for name in ("document/train", "document/validation", "section/train")
        },
    ),
    "sgoel9/paul_graham_essays": (
        None,
        {"data/train-00000-of-00001.parquet": [{"title": "t", "text": "Do what you like."}]},
    ),
    "mteb/amazon_polarity": (
        None,
        {
            f"{split}.jsonl": [{"id": "1", "text": split, "label": 1, "label_text": "positive"}]
            for split in ("test", "train")
        },
    ),
    "mteb/arguana": (
        configs(
            default={"test": "qrels/test.jsonl"},
            corpus={"corpus": "corpus.jsonl"},
            queries={"queries": "queries.jsonl"},
        ),
        {
            "corpus.jsonl": [{"_id": "a-pro", "title": "", "text": "a."}],
            "queries.jsonl": [{"_id": "a-con", "text": "b."}],
            "qrels/test.jsonl": [{"query-id": "a-con", "corpus-id": "a-pro", "score": 1.0}],
        },
    ),
    "sentence-transformers/reddit-title-body": (
        None,
        {
            f"reddit_title_text_{year}.jsonl.gz": [{"title": "t", "body": year, "subreddit": "s"}]
            for year in ("2010", "2011")
        },
    ),
}


def hub_parts(node):
    """Yield what in a config names datasets: evidence sections whole, other sources alone."""
    if isinstance(node, dict):
        if ("layout" in node and "source" in node) or node.get("kind") == "hub":
            yield node
        else:
            for inner in node.values():
                yield from hub_parts(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from hub_parts(inner)


def preset_parts():
    """Those of all shipped configs, by dataset; of the parts of IndustryCorpus2 one a language."""
    found = {}
    for path in sorted((CONFIG_FOLDER).glob("**/*.yaml")):
        for part in hub_parts(yaml.safe_load(path.read_text())):
            text = json.dumps(part, sort_keys=True)
            found[re.sub(r"IndustryCorpus2_\w+", "IndustryCorpus2_x", text)] = text
    return [json.loads(text) for text in found.values()]


def lay_out(name):
    """Write a dataset's layout as a folder, the files in the order of the hub's listing."""
    readme, files = next(own for pattern, own in LAYOUTS.items() if re.fullmatch(pattern, name))
    root = Path(name)
    for path, records in sorted(files.items()):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".parquet"):
            pl.DataFrame(records).write_parquet(root / path)
        else:
            lines = "".join(json.dumps(record) + "\n" for record in records).encode()
            (root / path).write_bytes(gzip.compress(lines) if path.endswith(".gz") else lines)
    if readme is not None:
        (root / "README.md").write_text(readme)


def named(part):
    """Name the dataset of a part."""
    return part["source"]["name"] if "source" in part else part["name"]


EVIDENCE = {
    "allenai/scifact": [("1", "7", [1], [], ("a.", "b."))],
    "fever/fever": [("1", "A", [1], [], ("a.", "b."))],
    "hotpotqa/hotpot_qa": [("1", "distractor/validation", [1], [], ("a.", "b."))],
    "tdiggelm/climate_fever": [("1", "A", [], ["b."], ())],
    "mteb/msmarco": [("1", "8", [0], [], ("b.",))],
}
TIERS = ("high", "low", "middle")
DOCUMENTS = {
    "HuggingFaceFW/fineweb": [f"sample/10BT/00{n}_00000:{i}" for n in range(2) for i in range(2)],
    "HuggingFaceFW/fineweb-edu": [
        f"<urn:sample/10BT/00{n}_00000.parquet:{i}>" for n in range(2) for i in range(2)
    ],
    "opencsg/Fineweb-Edu-Chinese-V2.1": [
        f"{tier}/00000:{i}" for tier in ("4_5", "3_4", "2_3") for i in range(2)
    ],
    "wikimedia/wikipedia": ["en0", "en1"],
    "proj-persona/PersonaHub": ["persona:0", "persona:1"],
    "rajpurkar/squad_v2": [f"squad_v2/{n}-00000-of-00001:0" for n in ("train", "validation")],
    "ccdv/pubmed-summarization": ["document/train-00000-of-00001:0"],
    "sgoel9/paul_graham_essays": ["data/train-00000-of-00001:0"],
    "mteb/amazon_polarity": ["test:0"],
    "mteb/arguana": ["a-pro"],
    "sentence-transformers/reddit-title-body": ["reddit_title_text_2010:0"],
}


@pytest.mark.parametrize("part", preset_parts(), ids=named)
def test_a_preset_reads_the_layout_of_its_dataset(part):
    name = named(part)
    lay_out(name)
    if name in EVIDENCE:
        found = read_evidence(TypeAdapter(Evidence).validate_python(part), {"0", "1"})
        own = [(a.query_id, a.document, a.numbers, a.quotes, a.sentences) for a in found]
        assert own == EVIDENCE[name]
    elif name == "rajpurkar/squad_v2" and "text_column" not in part:
        questions = read_hub_questions(HubSource.model_validate(part))
        assert questions.select("_id", "answer").rows() == [("q1", "Ada"), ("q2", "It")]
    elif name == "NovaSearch/FineWeb-PosQ":
        section = {"recipe": "fineweb_posq_release", "source": part}
        built = FinewebPosqRelease.model_validate(section).build(lambda texts: [1] * len(texts))
        assert built.corpus["text"].to_list() == ["Ada wrote."]
    elif name == "mohsenfayyaz/ColDeR":
        (subset,) = (Path(path).stem for path in part["data_files"])
        section = {"recipe": "colder", "subset": subset, "source": part}
        built = Colder.model_validate(section).build(lambda texts: [1] * len(texts))
        assert built.corpus["text"].to_list() == [f"{subset} a.", f"a. {subset}"]
    elif name == "HuggingFaceFW/fineweb-edu" and "id_column" not in part:
        assert ids(part) == ["sample/10BT/000_00000:0", "sample/10BT/000_00000:1"]
    elif name in DOCUMENTS:
        assert ids(part) == DOCUMENTS[name]
    else:
        language = part["data_files"][0].split("/")[0]
        # Of 10 records, 4, 3 and 3 of three files; two that lack some make the third give more.
        few = part | {"max_documents": 10}
        counts = {tier: sum(f"/{tier}/" in key for key in ids(few)) for tier in TIERS}
        wanted = {"english": (3, 1, 6), "chinese": (4, 3, 3)}
        assert counts == dict(zip(TIERS, wanted[language], strict=True))
        assert all(key.startswith(f"{language}/") for key in ids(part))
        assert len(ids(part)) == {"english": 13, "chinese": 12}[language]


def ids(part):
    """Read the documents' ids as a source of documents is read."""
    read = read_documents(HubSource.model_validate(part))
    return pl.concat(read.batches).get_column("_id").to_list()
