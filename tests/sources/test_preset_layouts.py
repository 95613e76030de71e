"""The hub datasets of the shipped presets, as small folders, read by the presets."""

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
from psibench.sources.documents import read_documents
from psibench.sources.evidence import Evidence, read_evidence
from psibench.sources.records import source_records

pytestmark = pytest.mark.usefixtures("folder")

INDUSTRY = ("high/rank_00001", "high/rank_01017", "low/rank_00001", "middle/rank_01932")
QUESTION = ("id", "title", "question", "context", "answers")
PAIR = ("query", "document_1", "document_2")
BIASES = ("brevity", "literal", "position", "repetition")
# Columns; files, in the order of the hub's listing; configurations: splits and their files
LAYOUTS = {
    r"BAAI/IndustryCorpus2_\w+": (
        ("text", "lang", "quality_score", "_id"),
        [f"{at}/{name}.parquet" for at in ("chinese", "english") for name in INDUSTRY],
        {},
    ),
    "HuggingFaceFW/fineweb(-edu)?": (
        ("text", "id", "language_score"),
        [
            "data/CC-MAIN-2013-20/000_00000.parquet",
            "sample/100BT/000_00000.parquet",
            "sample/10BT/000_00000.parquet",
            "sample/10BT/001_00000.parquet",
        ],
        {"default": {"train": "data/*/*"}, "sample-10BT": {"train": "sample/10BT/*"}},
    ),
    "opencsg/Fineweb-Edu-Chinese-V2.1": (
        ("text", "score"),
        ["2_3/00000.parquet", "3_4/00000.parquet", "4_5/00000.parquet"],
        {},
    ),
    "wikimedia/wikipedia": (
        ("id", "url", "title", "text"),
        [f"20231101.{code}/train-0000{n}.parquet" for code in ("de", "en") for n in range(2)],
        {f"20231101.{code}": {"train": f"20231101.{code}/*"} for code in ("de", "en")},
    ),
    "proj-persona/PersonaHub": (
        ("persona",),
        ["instruction.jsonl", "math.jsonl", "persona.jsonl"],
        {name: {"train": f"{name}.jsonl"} for name in ("math", "persona")},
    ),
    "rajpurkar/squad_v2": (
        QUESTION,
        ["squad_v2/train-0.parquet", "squad_v2/validation-0.parquet"],
        {"squad_v2": {"train": "squad_v2/train-*", "validation": "squad_v2/validation-*"}},
    ),
    "NovaSearch/FineWeb-PosQ": (("question", "content", "span_class"), ["train.jsonl"], {}),
    "mohsenfayyaz/ColDeR": (PAIR, [f"test/{name}_bias.jsonl" for name in BIASES], {}),
    "ccdv/pubmed-summarization": (
        ("article", "abstract"),
        [f"{name}-0.parquet" for name in ("document/train", "document/test", "section/train")],
        {
            "section": {"train": "section/train-*"},
            "document": {"train": "document/train-*", "test": "document/test-*"},
        },
    ),
    "sgoel9/paul_graham_essays": (("title", "text"), ["data/train-00000-of-00001.parquet"], {}),
    "mteb/amazon_polarity": (("id", "text", "label"), ["test.jsonl", "train.jsonl"], {}),
    "mteb/arguana": (
        ("_id", "title", "text"),
        ["corpus.jsonl", "queries.jsonl"],
        {name: {name: f"{name}.jsonl"} for name in ("corpus", "queries")},
    ),
    "sentence-transformers/reddit-title-body": (
        ("title", "body", "subreddit"),
        [f"reddit_title_text_{year}.jsonl.gz" for year in ("2010", "2011")],
        {},
    ),
}
READ_BY = {"NovaSearch/FineWeb-PosQ", "mohsenfayyaz/ColDeR", "rajpurkar/squad_v2"}
"""What loaders read by its columns; of the others the documents are read."""
READ = {
    "HuggingFaceFW/fineweb": ["sample/10BT/000_00000.parquet", "sample/10BT/001_00000.parquet"],
    "HuggingFaceFW/fineweb-edu": ["sample/10BT/000_00000.parquet", "sample/10BT/001_00000.parquet"],
    "opencsg/Fineweb-Edu-Chinese-V2.1": [f"{tier}/00000.parquet" for tier in ("4_5", "3_4", "2_3")],
    "wikimedia/wikipedia": [f"20231101.en/train-0000{n}.parquet" for n in range(2)],
    "proj-persona/PersonaHub": ["persona.jsonl"],
    "rajpurkar/squad_v2": ["squad_v2/train-0.parquet", "squad_v2/validation-0.parquet"],
    "NovaSearch/FineWeb-PosQ": ["train.jsonl"],
    "ccdv/pubmed-summarization": ["document/train-0.parquet"],
    "sgoel9/paul_graham_essays": ["data/train-00000-of-00001.parquet"],
    "mteb/amazon_polarity": ["test.jsonl"],
    "mteb/arguana": ["corpus.jsonl"],
}
"""Files that are read, where the preset does not name the only one itself."""


def hub_parts(node):
    """Yield the sections of a config that name datasets: whole evidence sections, else sources."""
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


def named(part):
    """Name the dataset of a part."""
    return part["source"]["name"] if "source" in part else part["name"]


def lay_out(name, files, configs):
    """Write a dataset's files, path -> records, and its configurations as a folder."""
    root = Path(name)
    for path, records in sorted(files.items()):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".parquet"):
            pl.DataFrame(records).write_parquet(root / path)
        else:
            lines = "".join(json.dumps(record) + "\n" for record in records).encode()
            (root / path).write_bytes(gzip.compress(lines) if path.endswith(".gz") else lines)
    listed = [
        {
            "config_name": config,
            "data_files": [{"split": split, "path": path} for split, path in splits.items()],
        }
        for config, splits in configs.items()
    ]
    if listed:
        (root / "README.md").write_text(f"---\n{yaml.safe_dump({'configs': listed})}---\n")


@pytest.mark.parametrize("part", [p for p in preset_parts() if "layout" not in p], ids=named)
def test_a_preset_reads_the_right_files_of_its_dataset(part):
    name = named(part)
    columns, paths, configs = next(
        own for pattern, own in LAYOUTS.items() if re.fullmatch(pattern, name)
    )
    lay_out(name, {path: [{one: f"{one} {path}" for one in columns}] for path in paths}, configs)
    source = HubSource.model_validate(part)
    if name in READ_BY and "text_column" not in part:
        origins = [origin for origin, record in source_records(source, columns)]
    else:
        origins = pl.concat(read_documents(source).batches)["origin"].to_list()
    expected = READ.get(name)
    if "IndustryCorpus2" in name:
        expected = [path for path in paths if path.startswith(part["data_files"][0].split("/")[0])]
    elif len(part.get("data_files", ())) == 1 and "*" not in part["data_files"][0]:
        expected = part["data_files"]
    assert origins == [f"{name}/{path}, record 0" for path in expected]


# The hub's own conversion of SciFact and FEVER has a folder a configuration and split.
ANNOTATIONS = {
    "allenai/scifact": (
        {
            "claims/train/0000.parquet": {
                "id": 0,
                "evidence_doc_id": "9",
                "evidence_sentences": [0],
            },
            "claims/validation/0000.parquet": {
                "id": 1,
                "evidence_doc_id": "7",
                "evidence_sentences": [1],
            },
            "corpus/train/0000.parquet": {"doc_id": 7, "title": "t", "abstract": ["a.", "b."]},
        },
        {},
        ("1", "7", [1], [], ("a.", "b.")),
    ),
    "fever/fever": (
        {
            "v1.0/paper_dev/0000.parquet": {
                "id": 0,
                "evidence_wiki_url": "B",
                "evidence_sentence_id": 0,
            },
            "v1.0/paper_test/0000.parquet": {
                "id": 1,
                "evidence_wiki_url": "A",
                "evidence_sentence_id": 1,
            },
            "wiki_pages/partial-wikipedia_pages/0000.parquet": {
                "id": "A",
                "text": "a b",
                "lines": "0\ta.\tx\n1\tb.",
            },
        },
        {},
        ("1", "A", [1], [], ("a.", "b.")),
    ),
    "hotpotqa/hotpot_qa": (
        {
            f"{name}-0.parquet": {
                "id": "1",
                "supporting_facts": {"title": [name], "sent_id": [1]},
                "context": {"title": [name], "sentences": [["a.", "b."]]},
            }
            for name in ("distractor/train", "distractor/validation", "fullwiki/validation")
        },
        {
            "distractor": {"train": "distractor/train-*", "validation": "distractor/validation-*"},
            "fullwiki": {"validation": "fullwiki/validation-*"},
        },
        ("1", "distractor/validation", [1], [], ("a.", "b.")),
    ),
    "tdiggelm/climate_fever": (
        {
            "data/test-00000-of-00001.parquet": {
                "claim_id": "1",
                "evidences": [{"article": "A", "evidence": "b.", "evidence_label": 0}],
            }
        },
        {"default": {"test": "data/test-*"}},
        ("1", "A", [], ["b."], ()),
    ),
    "mteb/msmarco": (
        {
            "corpus.jsonl": {"_id": "8", "title": "", "text": "b."},
            "queries.jsonl": {"_id": "1", "text": "b?"},
            "qrels/train.jsonl": {"query-id": "0", "corpus-id": "7", "score": 1.0},
            "qrels/dev.jsonl": {"query-id": "1", "corpus-id": "8", "score": 1.0},
            "qrels/test.jsonl": {"query-id": "0", "corpus-id": "8", "score": 1.0},
        },
        {
            "default": {split: f"qrels/{split}.jsonl" for split in ("train", "dev", "test")},
            "corpus": {"corpus": "corpus.jsonl"},
            "queries": {"queries": "queries.jsonl"},
        },
        ("1", "8", [0], [], ("b.",)),
    ),
}


@pytest.mark.parametrize("part", [p for p in preset_parts() if "layout" in p], ids=named)
def test_a_preset_reads_the_evidence_of_its_dataset(part):
    files, configs, expected = ANNOTATIONS[named(part)]
    lay_out(named(part), {path: [record] for path, record in files.items()}, configs)
    found = read_evidence(TypeAdapter(Evidence).validate_python(part), {"0", "1"})
    assert [(a.query_id, a.document, a.numbers, a.quotes, a.sentences) for a in found] == [expected]
