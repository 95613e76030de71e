"""A config at small size: the same chain of jobs over texts at hand, stand-ins in place of models.

What is read from elsewhere is read from a folder of small files in the same layout: documents of
Python's documentation; for what has queries of its own, such documents with known-item queries.
Corpora have two domains a language; texts that should be Chinese have its letters and no meaning.

Checkpoints and embedding APIs become all-MiniLM-L6-v2, rerankers BM25 where they filter and
MiniLM's token vectors where they are evaluated, language models the stand-in. What is replaced gets
the id of what runs with `-for-` and its own id behind it (`stand_in_id`): bge-m3 becomes
all-minilm-l6-v2-for-bge-m3, in every table, page and file name. Keeps the first model of each kind,
the first of the bases to be trained, the first and the last of the distributions. Thresholds
between scores follow the default's, sizes go down, and everything else stays as the config has it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from psibench.commands.base import read_configs
from psibench.config.models import FusionModel, Model, RerankModel
from psibench.config.paths import SHIPPED
from psibench.config.registry import load_registry
from psibench.config.rerankers import load_rerankers
from psibench.generate.loaders.known_item import simulate_known_items
from psibench.llm.sections import load_llms
from psibench.llm.standin.locales import ACCENTED
from psibench.plan.config import (
    Config,
    load_config,
    trained_models,
    untrained_bases,
    upstream_models,
)
from psibench.plan.plan import make_plan
from psibench.text.languages import split_pair
from psibench.train.sections import Training

EMBEDDED = "embedded:all-MiniLM-L6-v2"
DENSE = "all-minilm-l6-v2"
"""What replaces models; the id says so."""
LEXICAL, NETWORK = "embedded-bm25", "embedded-minilm-maxsim"
"""What replaces rerankers of filters, and those that are evaluated."""
NAMES_MODELS = ("models", "model", "first_stage", "of", "compare")
NAMES_RERANKERS = ("rerankers", "reranker")
NAMES_LLMS = ("llm", "judges")
"""Keys of a config whose values are ids, by what they name."""
STAND_INS = ("stand-in", "stand-in-sentence", "stand-in-rare")
"""What replaces language models, in turn."""
N_DOCUMENTS, N_POOL = 24, 160
"""Documents of a place, and of one that is trained on."""
N_WITH_QUERIES = 60
"""Documents of a benchmark that comes with queries."""
DOMAINS = ("language", "library", "network")
"""Parts of Python's documentation, in the place of domains."""
WORDS_PER = {"words": 1.0, "tokens": 0.6, "chars": 0.15}
"""Words in a unit of a sample's lengths, about."""
AT_MOST: Mapping[str, float] = {
    "threshold": 0.1,  # between scores of rerankers: the embedded ones' are nearer to each other
    "shards": 2,
    "per_stratum": 10,
    "per_position": 5,
    "n_personas": 100,
}
"""Largest value of keys of a benchmark, wherever they stand."""
OF_FILES = ("paths", "path")
"""Keys of files of the user's own."""


def write_small(configs: list[Path], folder: Path) -> Path:
    """Write ``config.yaml`` and the data of a config at small size into a folder of its own.

    Raises
    ------
    InputError
        If the config is not valid.

    Returns
    -------
    The written config. Its paths start at ``folder``.
    """
    import yaml

    config, models = load_config(read_configs(configs))
    folder.mkdir(parents=True, exist_ok=True)
    raw = config.model_dump(mode="json", exclude_unset=True)
    small = _Small(config, models, Data(folder / "data"), raw).config()
    load_config(small)
    written = folder / "config.yaml"
    written.write_text(yaml.safe_dump(small, sort_keys=False, allow_unicode=True, width=100))
    return written


# Data


@cache
def _passages(part: str, shortest: int, longest: int) -> pl.DataFrame:
    from psibench.sources.python_docs import read_python_docs

    read = read_python_docs(min_words=shortest, max_words=longest, seed=42, part=part)  # type: ignore[arg-type]
    return read.documents.select("_id", "text")


def _in_chinese_letters(text: str) -> str:
    """Write a text with a pair of Chinese letters for each word, the same for the same word."""
    from zlib import crc32

    def pair(word: re.Match[str]) -> str:
        first, second = divmod(crc32(word[0].lower().encode()) % 1_000_000, 1_000)
        return chr(0x4E00 + first) + chr(0x5200 + second)

    text = re.sub(r"[A-Za-z_]+", pair, text)
    return re.sub(r"(?<=[^\x00-\x7f]) (?=[^\x00-\x7f])", "", re.sub(r"\.(?=\s|$) ?", "。", text))


@cache
def _queries(part: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return documents and queries about their thirds, with `document`, `start`, `evidence`."""
    documents = _passages(part, 60, 500).head(N_WITH_QUERIES)
    queries, _ = simulate_known_items(documents, seed=42, queries_per_third=2)
    joined = queries.join(
        documents.rename({"_id": "pos_corpus_id", "text": "document"}), on="pos_corpus_id"
    )
    start, end = (pl.col("pos_char_span").arr.get(n) for n in (0, 1))
    evidence = pl.col("document").str.slice(start, end - start)
    return documents, joined.with_columns(start=start, evidence=evidence)


@dataclass
class Data:
    """Small files in the layouts that sources have, in a folder; paths start above it."""

    folder: Path

    def _write(self, name: str, rows: pl.DataFrame) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            rows.write_parquet(path)
        elif path.suffix == ".tsv":
            rows.write_csv(path, separator="\t")
        else:
            rows.write_ndjson(path)
        return f"{self.folder.name}/{name}"

    def documents(self, number: int, language: str, words: tuple[int, int]) -> str:
        """Write documents of a domain in a language, of so many words; return the file's path."""
        part = DOMAINS[number % len(DOMAINS)]
        found = _passages(part, *words)
        if language.startswith("cmn"):
            texts = map(_in_chinese_letters, found.get_column("text"))
            found = found.with_columns(text=pl.Series(list(texts)))
        low, high = words
        return self._write(f"{language}-{part}-{low}-{high}.jsonl", found)

    def squad(self) -> str:
        """Write questions in SQuAD's layout."""
        documents, queries = _queries(DOMAINS[0])
        asked = queries.partition_by("pos_corpus_id", as_dict=True)
        paragraphs = [
            {
                "context": text,
                "qas": [
                    {
                        "id": row["_id"],
                        "question": row["text"],
                        "answers": [{"text": row["evidence"], "answer_start": row["start"]}],
                    }
                    for row in asked.get((key,), queries.head(0)).iter_rows(named=True)
                ],
            }
            for key, text in documents.iter_rows()
        ]
        path = self.folder / "squad.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        squad = {"version": "small", "data": [{"title": "Python", "paragraphs": paragraphs}]}
        path.write_text(json.dumps(squad, ensure_ascii=False))
        return f"{self.folder.name}/squad.json"

    def fineweb_posq(self) -> str:
        """Write questions in the layout of FineWeb-PosQ's release."""
        _, queries = _queries(DOMAINS[1])
        rows = queries.select(
            question="text", content="document", span_class=pl.concat_list("target_position")
        )
        return self._write("fineweb_posq.jsonl", rows)

    def colder(self) -> str:
        """Write pairs in ColDeR's layout: a document with its evidence put first, and last."""
        _, queries = _queries(DOMAINS[1])
        evidence, start = pl.col("evidence"), pl.col("start")
        end = start + evidence.str.len_chars()
        before, after = pl.col("document").str.slice(0, start), pl.col("document").str.slice(end)
        rest = before.str.strip_chars() + " " + after.str.strip_chars()
        pairs = queries.select(
            query="text",
            document_1=evidence + " " + rest,
            document_2=rest + " " + evidence,
            title="pos_corpus_id",
            evidence_sents=pl.concat_list(evidence.str.split(" ").implode().over("_id")),
        )
        return self._write("colder.jsonl", pairs)

    def beir(self, split: str) -> tuple[str, str]:
        """Write a dataset in BEIR's layout; return its folder, and quotes of the evidence."""
        documents, queries = _queries(DOMAINS[2])
        corpus = documents.with_columns(title=pl.lit("")).select("_id", "title", "text")
        self._write("beir/corpus.jsonl", corpus)
        self._write("beir/queries.jsonl", queries.select("_id", "text"))
        qrels = {"query-id": "_id", "corpus-id": "pos_corpus_id", "score": pl.lit(1)}
        self._write(f"beir/qrels/{split}.tsv", queries.select(**qrels))  # type: ignore[arg-type]
        quotes = queries.select(
            query_id="_id", document_id="pos_corpus_id", quotes=pl.concat_list("evidence")
        )
        return f"{self.folder.name}/beir", self._write("beir_quotes.jsonl", quotes)

    def posir(self, languages: list[str], domains: list[str]) -> str:
        """Write a release in PosIR's layout, in accented letters where it is not in English."""
        for language in languages:
            for number, domain in enumerate(domains):
                documents, queries = _queries(DOMAINS[number % len(DOMAINS)])
                if language != "eng-Latn":
                    other = pl.col("text").map_elements(ACCENTED.translate, return_dtype=pl.String)
                    documents, queries = documents.with_columns(other), queries.with_columns(other)
                place = f"posir/{language}/{domain}"
                length = pl.col("document").str.len_chars()
                self._write(f"{place}/corpus/test.parquet", documents)
                asked = queries.select(
                    "_id",
                    "text",
                    pl.col("pos_char_span").cast(pl.List(pl.Int64)),
                    pos_char_length=length.cast(pl.Int64),
                    pos_token_length=(length // 2).cast(pl.Int64),  # some beyond each quarter
                )
                self._write(f"{place}/queries/test.parquet", asked)
                qrels = {"query-id": "_id", "corpus-id": "pos_corpus_id", "score": pl.lit(1)}
                self._write(f"{place}/qrels/test.parquet", queries.select(**qrels))  # type: ignore[arg-type]
        return f"{self.folder.name}/posir"


# The config


@dataclass
class _Small:
    """A valid config and its models, where the data is written, and the config as plain data."""

    of: Config
    models: Mapping[str, Model]
    data: Data
    raw: dict[str, Any]

    def config(self) -> dict[str, Any]:
        """Make the config as plain data small, and return it."""
        raw = self.raw
        pools = {training.benchmark for training in self.of.training.values()}
        for name, section in raw["benchmarks"].items():
            _make_absolute(section)
            self._benchmark(section, n_documents=N_POOL if name in pools else N_DOCUMENTS)
        for training in raw.get("training", {}).values():
            self._training(training, raw["benchmarks"][training["benchmark"]])
        self._choose_models()
        raw.setdefault("probes", {})["n_documents"] = min(self.of.probes.n_documents, N_DOCUMENTS)
        raw["probes"] |= {"saliency_min_tokens": 128}
        raw["encoding"] = {}
        raw["length_tokenizer"] = EMBEDDED
        title = f"Small run, stand-ins for every model: {self.of.report.title}"
        raw["report"] = {"title": title, "is_small": True}
        self._stand_in()
        return raw

    # Benchmarks

    def _benchmark(self, section: dict[str, Any], *, n_documents: int) -> None:
        recipe = section["recipe"]
        if "queries_by" in section:
            section["queries_by"] = "simulation"
        if recipe == "squad_posq":
            for one in section.get("corpora") or [section]:
                one["source"] = {"kind": "squad", "paths": [self.data.squad()]}
        elif recipe == "fineweb_posq_release":
            section["source"] = {"kind": "files", "paths": [self.data.fineweb_posq()]}
        elif recipe == "colder":
            section["source"] = {"kind": "files", "paths": [self.data.colder()]}
        elif recipe == "beir":
            folder, quotes = self.data.beir(split := section["source"].get("split", "test"))
            section["source"] = {"path": folder, "split": split}
            found = {"kind": "files", "paths": [quotes]}
            section["evidence"] = {"layout": "quotes", "source": found}
        elif recipe == "posir_release":
            self._release(section)
        else:
            self._documents(section, n_documents)
        _cut(section)

    def _release(self, section: dict[str, Any]) -> None:
        languages = (section.get("languages") or ["eng-Latn"])[:2]
        if section.get("cross_lingual"):
            section["cross_lingual"] = section["cross_lingual"][:1]
            languages = [*split_pair(section["cross_lingual"][0])][::-1]
        domains = section.get("domains") or ["finance_economics"]
        if isinstance(domains, dict):  # a list for each language
            domains = list(dict.fromkeys(one for names in domains.values() for one in names))
        domains = domains[:2]
        section |= {"languages": languages, "domains": domains}
        section["source"] = {"path": self.data.posir(languages, domains)}

    def _documents(self, section: dict[str, Any], n_documents: int) -> None:
        sample = section.get("sample") or {}
        if section["recipe"] == "documents":
            section["n_documents"] = min(section.get("n_documents") or n_documents, n_documents)
        if n_documents == N_POOL and sample.get("unit") == "chars":
            sample["edges"] = [256, 512, 1024]  # cells of lengths and positions
            sample.pop("shares", None)
        if sample:
            sample["n_documents"] = min(sample.get("n_documents") or n_documents, n_documents)
        unit = WORDS_PER[sample.get("unit", "words")]
        edges = sample.get("edges") or section.get("words") or [60, 600]
        words = (max(20, int(edges[0] * unit)), int(edges[-1] * unit))
        if section.get("corpora"):
            by_language: dict[str, list[dict[str, Any]]] = {}
            for one in section["corpora"]:
                by_language.setdefault(one.get("language") or "eng-Latn", []).append(one)
            section["corpora"] = [one for corpora in by_language.values() for one in corpora[:2]]
        for number, one in enumerate(section.get("corpora") or [section]):
            language = one.get("language") or section.get("language") or "eng-Latn"
            if one["source"]["kind"] == "hub":
                path = self.data.documents(number, language, words)
                one["source"] = {"kind": "files", "paths": [path], "id_column": "_id"}
        if (section.get("personas") or {}).get("source", {}).get("kind") == "hub":
            del section["personas"]["source"]

    # Models

    def _training(self, training: dict[str, Any], pool: dict[str, Any]) -> None:
        training["edges"] = pool.get("sample", training)["edges"]
        training["seeds"] = training.get("seeds", [42])[:1]
        training.pop("budget", None)
        distributions = (
            training.get("distributions") or Training.model_fields["distributions"].default
        )
        training["distributions"] = dict(
            list(distributions.items())[:: len(distributions) - 1 or 1]
        )
        name = self._base(training)
        base = training["bases"][name]
        if per_domain := (base.get("pads") or {}).get("per_domain"):
            domains = {one["domain"] for one in pool["corpora"]}
            base["pads"]["per_domain"] = {
                one: min(n, 5) for one, n in per_domain.items() if one in domains
            }
        kept = ("pooling", "query_prompt", "document_prompt", "objective", "pads", "licence")
        stand_in = {"checkpoint": EMBEDDED, "max_tokens": 128, "parameters_m": 15}
        if base.get("objective") == "pads":  # a finished retriever, a little moved
            stand_in |= {"pooling": "mean", "learning_rate": 2e-5}
        else:
            stand_in |= {"learning_rate": 5e-4}
            stand_in |= {} if training.get("untrained") else {"layers": 2}
        training["bases"] = {name: {key: base[key] for key in kept if key in base} | stand_in}
        training["settings"] = {"epochs": 1, "batch_size": 8}

    def _base(self, training: dict[str, Any]) -> str:
        """Return the first base that a benchmark names models of, else the first of all."""
        sections = self.raw["benchmarks"].values()
        named = {name for section in sections for name in section.get("models") or ()}
        tested = {one.base for name, one in self.of.trained.items() if name in named}
        bases = list(training["bases"])
        return next((name for name in bases if name in tested), bases[0])

    def _choose_models(self) -> None:
        """Keep the first model of each kind, what they rest on, and what is trained."""
        raw, config = self.raw, self.of
        kept: dict[str, None] = {}
        seen = set()
        for name in config.models:
            entry = self.models[name]
            if name in config.trained or name in config.untrained:
                continue
            kind = (entry.backend, entry.kind, entry.control, getattr(entry, "vectors", None))
            if kind not in seen:
                seen.add(kind)
                kept |= dict.fromkeys([*upstream_models(entry, config), name])
        raw["models"] = [name for name in config.models if name in kept]
        left = {*raw["models"], *_made_by(raw)}
        for section in [*raw["benchmarks"].values(), raw.get("probes", {})]:
            for part in (section, section.get("translate") or {}):
                if part.get("models") is not None:
                    part["models"] = [name for name in part["models"] if name in left]
                    if not part["models"]:
                        del part["models"]
        if compare := raw.get("compare"):
            raw["compare"] = {a: b for a, b in compare.items() if {a, b} <= left}

    def _stand_in(self) -> None:
        """Replace the entries of all that the small config names, under ids that say so."""
        raw, plan = self.raw, make_plan(*load_config(self.raw), missing=[])
        made = {*plan.config.trained, *plan.config.untrained}
        entries = {name: entry for name, entry in plan.models.items() if name not in made}
        known = load_registry() | self.of.registry
        named = (known.get(name) for name in {*plan.models, *plan.rerankers})  # under one id
        second = {entry.reranker for entry in named if isinstance(entry, RerankModel)}
        rerankers, llms = load_rerankers(self.of.rerankers), load_llms(self.of.llms)
        of_rerankers = _replacements(rerankers, {*plan.rerankers} - second, [LEXICAL])
        of_rerankers |= _replacements(rerankers, second, [NETWORK])
        of_llms = _replacements(llms, {*plan.llms}, [one for one in llms if one in STAND_INS])
        of_models = _model_replacements(entries, of_rerankers)

        raw["registry"] = {name: _dense(entry) for name, entry in entries.items()}
        for name, by in of_models.items():
            raw["registry"][name]["description"] = f"{by} in place of {name}"
        raw["rerankers"] = _entries(rerankers, of_rerankers)
        raw["llms"] = _entries(llms, of_llms)
        models, others, asked = map(_ids, (of_models, of_rerankers, of_llms))
        for section in _mappings(raw):
            if section.get("translators"):
                section["translators"] = {
                    stand_in_id(of_llms[one["llm"]], name) if one["llm"] in of_llms else name: one
                    for name, one in section["translators"].items()
                }
        models |= self._rename_bases()
        for keys, ids in ((NAMES_MODELS, models), (NAMES_RERANKERS, others), (NAMES_LLMS, asked)):
            _rename(raw, keys, ids)
        for kind, ids in (("registry", models), ("rerankers", others), ("llms", asked)):
            raw[kind] = {ids.get(name, name): entry for name, entry in raw[kind].items()}

    def _rename_bases(self) -> dict[str, str]:
        """Rename the bases that are trained; return the new ids of the models made of them."""
        before = _made_by(self.raw)
        for name, training in self.raw.get("training", {}).items():
            given = self.of.training[name].bases
            replaced = {base: DENSE for base in given if given[base].checkpoint != EMBEDDED}
            ids = _ids(replaced)
            training["bases"] = {
                ids.get(base, base): one for base, one in training["bases"].items()
            }
        return dict(zip(before, _made_by(self.raw), strict=True))


def stand_in_id(by: str, name: str) -> str:
    """Return the id of what runs in the place of a model, reranker or language model."""
    return f"{by}-for-{name}"


def _ids(replaced: Mapping[str, str]) -> dict[str, str]:
    return {name: stand_in_id(by, name) for name, by in replaced.items()}


def _replacements(known: Mapping[str, Any], named: set[str], by: list[str]) -> dict[str, str]:
    """Map the named entries that are not in ``by`` to those in ``by``, in turn."""
    chosen = [name for name in known if name in named and name not in by]
    return dict(zip(chosen, cycle(by), strict=False))


def _entries(known: Mapping[str, Any], replaced: Mapping[str, str]) -> dict[str, Any]:
    return {
        name: known[by].model_dump(mode="json", exclude_unset=True) for name, by in replaced.items()
    }


def _model_replacements(
    entries: Mapping[str, Model], rerankers: Mapping[str, str]
) -> dict[str, str]:
    """Map the models that are replaced, or rest on something replaced, to what runs instead."""
    found = {name: DENSE for name, entry in entries.items() if _is_replaced(entry)}
    for name, entry in entries.items():
        if isinstance(entry, RerankModel) and entry.reranker in rerankers:
            found[name] = rerankers[entry.reranker]
        elif isinstance(entry, FusionModel) and not found.keys().isdisjoint(entry.of):
            found[name] = "stand-ins"
    return found


def _rename(config: dict[str, Any], keys: Sequence[str], ids: Mapping[str, str]) -> None:
    """Replace ids in the values of some keys, wherever in a config these are."""

    def renamed(value: Any) -> Any:
        if isinstance(value, str):
            return ids.get(value, value)
        if isinstance(value, list):
            return [renamed(one) for one in value]
        if isinstance(value, dict):
            return {renamed(key): renamed(one) for key, one in value.items()}
        return value

    for section in _mappings(config):
        section |= {key: renamed(section[key]) for key in keys if key in section}


def _made_by(config: Mapping[str, Any]) -> list[str]:
    """List the ids of the models that a config trains, and of their bases before that."""
    training = TypeAdapter(dict[str, Training]).validate_python(config.get("training", {}))
    trained = trained_models(training)
    untrained = untrained_bases(m for m in trained.values() if training[m.training].untrained)
    return [*trained, *untrained]


def _is_replaced(entry: Model) -> bool:
    is_hosted = entry.backend == "embedding-api"
    return is_hosted or getattr(entry, "checkpoint", EMBEDDED) != EMBEDDED


def _dense(entry: Model) -> dict[str, Any]:
    """Return the entry of a model at small size."""
    dumped = entry.model_dump(mode="json", exclude_unset=True)
    if not _is_replaced(entry):
        return dumped
    kind = {"kind": entry.kind, "scoring": "maxsim"} if entry.kind == "late-interaction" else {}
    kept = ("query_prompt", "document_prompt", "control")
    return {
        "backend": "sentence-transformers",
        "checkpoint": EMBEDDED,
        "max_tokens": min(getattr(entry, "max_tokens", None) or 256, 256),
        "parameters_m": 22.7,
        "licence": "Apache-2.0",
        **kind,
        **{key: dumped[key] for key in kept if dumped.get(key) is not None},
    }


# Plain data


def _cut(section: dict[str, Any]) -> None:
    """Cut the sizes of a benchmark's steps."""
    for inner in _mappings(section):
        for key, most in AT_MOST.items():
            if isinstance(value := inner.get(key), int | float):
                inner[key] = min(value, most)
    if (translate := section.get("translate")) is not None:
        translate["to"] = translate["to"][:2]
    if "propose_questions" in section:
        section["propose_questions"]["share"] = 1.0


def _mappings(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings in plain data."""
    if isinstance(value, dict):
        yield value
        value = [*value.values()]
    for inner in value if isinstance(value, list) else ():
        yield from _mappings(inner)


def _make_absolute(section: dict[str, Any]) -> None:
    """Make the user's own paths absolute: the config is run in a folder of its own.

    Templates are the shipped ones: the stand-in has no rules for others.
    """
    for inner in _mappings(section):
        inner.pop("prompt", None)
        for key in OF_FILES:
            if isinstance(given := inner.get(key), str):
                inner[key] = _absolute(given)
            elif isinstance(given, list):
                inner[key] = [_absolute(one) for one in given]


def _absolute(path: str) -> str:
    is_own = not path.startswith(SHIPPED) and (Path(path).exists() or "*" in path)
    return str(Path(path).absolute()) if is_own else path
