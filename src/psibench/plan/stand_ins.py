"""`stand_ins: true`: replaces the models of a config, and its texts on the hub, by stand-ins.

Checkpoints and embedding APIs become all-MiniLM-L6-v2. Rerankers become BM25 if they filter, and
MiniLM's token vectors if they are evaluated. Language models become the rule-based stand-ins, and
datasets become small shipped ones with the same layout. Models of one kind share the stand-in of
the first. The id of a stand-in ends with the replaced model's id, in every table and file name:
bge-m3 becomes all-minilm-l6-v2-for-bge-m3.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from psibench.config.files import validated
from psibench.config.models import (
    EncoderModel,
    FusionModel,
    Model,
    RerankModel,
    SentenceTransformerModel,
)
from psibench.config.paths import CONFIG_FOLDER
from psibench.config.registry import load_registry
from psibench.config.rerankers import RerankerModel, checkpoint_of, load_rerankers
from psibench.config.sections import Encoding
from psibench.config.sources import (
    BeirSource,
    FilesSource,
    PosirReleaseSource,
    PythonDocsSource,
    SquadSource,
)
from psibench.generate.benchmarks import (
    Beir,
    Benchmark,
    BenchmarkSource,
    Colder,
    Controlled,
    FinewebPosqRelease,
    PosirRelease,
    SquadPosq,
)
from psibench.generate.personas import Personas
from psibench.llm.sections import load_llms
from psibench.sources.evidence import Evidence
from psibench.sources.local import dataset_revisions
from psibench.text.languages import split_pair
from psibench.train.sections import Base, Settings, Training

if TYPE_CHECKING:
    from psibench.plan.config import Config

EMBEDDED = "embedded:all-MiniLM-L6-v2"
DENSE, LEXICAL, NETWORK = "all-minilm-l6-v2", "embedded-bm25", "embedded-minilm-maxsim"
"""Stand-ins of models, of rerankers that filter, and of rerankers that are evaluated."""
LLMS = ("stand-in", "stand-in-sentence", "stand-in-rare")
"""Stand-ins of language models, used in turn so that the judges of a panel differ."""
TEXTS = CONFIG_FOLDER / "stand_ins"
"""Folder of the shipped texts; tools/stand_in_texts.py writes it."""
LANGUAGES, DOMAINS = ("eng-Latn", "ara-Arab"), ("accommodation_catering_hotel", "aerospace")
"""Languages and domains of the shipped release in PosIR's layout."""
PARTS: tuple[Literal["language", "library", "network"], ...] = ("language", "library", "network")
"""Parts of Python's documentation that replace documents on the hub, used in turn."""
MOST_WORDS = 1228
"""Longest passage from them: about 2,048 tokens, the longest documents of shipped samples."""
MOST_TOKENS, MOST_TRAINING_TOKENS = 256, 128
"""Longest input of a stand-in, and of a trained one. Saliency probes use at most the latter."""


def with_stand_ins(config: "Config", llms: Iterable[str]) -> "Config":
    """Return a valid config with stand-ins; ``llms`` are the config's language models."""
    models = load_registry() | config.registry
    rerankers, known_llms = load_rerankers(config.rerankers), load_llms(config.llms)
    replaced_llms = [
        name for name in known_llms if name in set(llms) and known_llms[name].backend != "stand-in"
    ]
    of_llms = dict(zip(replaced_llms, cycle(LLMS), strict=False))
    of_rerankers = _rerankers(config, models, rerankers)
    of_models = _models(config, models, of_rerankers)
    entries: dict[str, Model] = {}
    for name, new in of_models.items():  # the first model of a kind is described
        entries.setdefault(new, _entry(models[name], f"{new.split('-for-')[0]} in place of {name}"))
    probes = {
        "saliency_min_tokens": min(config.probes.saliency_min_tokens, MOST_TRAINING_TOKENS),
    }
    changed = config.model_copy(
        update={
            "benchmarks": {name: _with_texts(one) for name, one in config.benchmarks.items()},
            "registry": config.registry | entries,
            "rerankers": config.rerankers | _renamed(rerankers, of_rerankers),
            "llms": config.llms | _renamed(known_llms, of_llms),
            "training": {name: _training(one) for name, one in config.training.items()},
            "probes": config.probes.model_copy(update=probes),
            "encoding": Encoding(),
            "length_tokenizer": EMBEDDED,
        }
    )
    ids = {
        "models": of_models | _trained(config),
        "rerankers": _ids(of_rerankers),
        "llms": _ids(of_llms),
        "translators": _ids(_translators(config, of_llms)),
    }
    plain = changed.model_dump(mode="json", exclude_unset=True)
    return validated(plain, TypeAdapter(type(config)), "config", context=ids)


def stand_in_id(by: str, name: str) -> str:
    """Return the id of the stand-in of a model, reranker or language model."""
    return f"{by}-for-{name}"


def _ids(by: Mapping[str, str]) -> dict[str, str]:
    return {name: stand_in_id(one, name) for name, one in by.items()}


def _renamed(known: Mapping[str, Any], by: Mapping[str, str]) -> dict[str, Any]:
    return {stand_in_id(one, name): known[one] for name, one in by.items()}


# Models


def _rerankers(
    config: "Config", models: Mapping[str, Model], known: Mapping[str, RerankerModel]
) -> dict[str, str]:
    """Map the rerankers with a checkpoint to their stand-ins."""
    entries = (models.get(name) for name in config.models)
    evaluated = {one.reranker for one in entries if isinstance(one, RerankModel)}
    return {
        name: NETWORK if name in evaluated else LEXICAL
        for name, one in known.items()
        if checkpoint_of(one)[0] != EMBEDDED
    }


def _models(
    config: "Config", models: Mapping[str, Model], rerankers: Mapping[str, str]
) -> dict[str, str]:
    """Map replaced models, and models that use replaced ones, to new ids.

    Models of one kind share the id of the first; fused or compared models get one id each.
    """
    named = {name: models[name] for name in config.models if name in models}
    distinct = {of for one in named.values() if isinstance(one, FusionModel) for of in one.of}
    distinct |= {*config.compare, *config.compare.values()}
    found: dict[str, str] = {}
    first: dict[object, str] = {}
    for name, entry in {**named, **models}.items():
        by = rerankers.get(entry.reranker) if isinstance(entry, RerankModel) else DENSE
        if by is not None and _is_replaced(entry):
            runs_here = isinstance(entry, EncoderModel)
            of_kind = ("encoder" if runs_here else entry.backend, entry.kind, entry.control)
            key = (*of_kind, name if name in distinct else "")
            found[name] = first.setdefault(key, stand_in_id(by, name))
    for name, entry in models.items():
        if isinstance(entry, FusionModel) and not found.keys().isdisjoint(entry.of):
            found[name] = stand_in_id("stand-ins", name)
    return found


def _is_replaced(entry: Model) -> bool:
    """Return whether a model is an embedding API, reranks, or has a checkpoint to download."""
    is_made_elsewhere = entry.backend in ("embedding-api", "rerank")
    return is_made_elsewhere or getattr(entry, "checkpoint", EMBEDDED) != EMBEDDED


def _entry(entry: Model, description: str) -> Model:
    """Return the registry entry of a model's stand-in."""
    if isinstance(entry, RerankModel | FusionModel):
        return entry.model_copy(update={"description": description})
    kept = {key: getattr(entry, key, None) for key in ("query_prompt", "document_prompt")}
    kept["control"] = entry.control
    if entry.kind == "late-interaction":
        kept |= {"kind": entry.kind, "scoring": "maxsim"}
    return SentenceTransformerModel(
        backend="sentence-transformers",
        checkpoint=EMBEDDED,
        max_tokens=min(getattr(entry, "max_tokens", None) or MOST_TOKENS, MOST_TOKENS),
        parameters_m=22.7,
        licence="Apache-2.0",
        description=description,
        **{key: value for key, value in kept.items() if value is not None},
    )


def _translators(config: "Config", llms: Mapping[str, str]) -> dict[str, str]:
    """Map the names of compared translators to their stand-ins."""
    found = {}
    for section in config.benchmarks.values():
        quality = section.translate and section.translate.quality
        for name, one in ((quality and quality.translators) or {}).items():
            if one.llm in llms:
                found[name] = llms[one.llm]
    return found


# Training


def _bases(section: Training) -> dict[str, str]:
    """Map replaced base models to new ids; bases with the same objective share the first id."""
    first: dict[str, str] = {}
    return {
        name: first.setdefault(base.objective, stand_in_id(DENSE, name))
        for name, base in section.bases.items()
        if base.checkpoint != EMBEDDED
    }


def _trained(config: "Config") -> dict[str, str]:
    """Map trained models and their untrained bases to new ids."""
    found = {}
    for name, model in config.trained.items():
        base = _bases(config.training[model.training]).get(model.base, model.base)
        found[name] = replace(model, base=base).id
        found[f"{model.base}-untrained"] = f"{base}-untrained"
    return found


def _training(section: Training) -> Training:
    """Return a one-epoch training of a two-layer network, or of the whole retriever for PADS."""
    new, bases = _bases(section), dict[str, Base]()
    for name, base in section.bases.items():
        is_pads = base.objective == "pads"
        stand_in = Base(
            checkpoint=EMBEDDED,
            licence=base.licence,
            max_tokens=MOST_TRAINING_TOKENS,
            pooling="mean" if is_pads else base.pooling,
            query_prompt=base.query_prompt,
            document_prompt=base.document_prompt,
            parameters_m=15,
            learning_rate=2e-5 if is_pads else 5e-4,
            layers=None if is_pads or section.untrained else 2,
            objective=base.objective,
            pads=base.pads,
        )
        bases.setdefault(new.get(name, name), stand_in if name in new else base)
    settings = Settings(epochs=1, batch_size=8)
    return section.model_copy(update={"bases": bases, "settings": settings})


# Texts


def _with_texts(section: Benchmark) -> Benchmark:
    """Return a section that reads shipped texts instead of texts on the hub."""
    update: dict[str, Any] = {}
    if corpora := getattr(section, "corpora", None):
        update["corpora"] = [
            one.model_copy(
                update={"source": _texts(section, one.source, n, one.language or section.language)}
            )
            for n, one in enumerate(corpora)
        ]
    else:
        update["source"] = _texts(section, section.source, 0, section.language)
    if isinstance(section, Controlled) and dataset_revisions(section.personas.source):
        shipped = {"source": Personas().source}
        update["personas"] = section.personas.model_copy(update=shipped)
    if update.get("source") == section.source or "queries_by" not in type(section).model_fields:
        return section.model_copy(update=update)
    update["queries_by"] = "simulation"
    if isinstance(section, Beir):
        quotes = FilesSource(kind="files", paths=[str(TEXTS / "beir_quotes.jsonl.gz")])
        update["evidence"] = Evidence(layout="quotes", source=quotes)
    if isinstance(section, PosirRelease):
        languages = [one for one in section.languages or () if one in LANGUAGES]
        update |= {"languages": languages or [*LANGUAGES[:1]], "domains": [*DOMAINS]}
        if section.cross_lingual is not None:
            update["cross_lingual"] = [
                pair for pair in section.cross_lingual if {*split_pair(pair)} <= {*languages}
            ]
    return section.model_copy(update=update)


def _texts(section: Benchmark, source: Any, number: int, language: str) -> BenchmarkSource:
    """Return shipped texts for a source on the hub; other sources are unchanged."""
    if not dataset_revisions(source):
        return source
    match section:
        case SquadPosq():
            return SquadSource(kind="squad", paths=[str(TEXTS / "squad.json")])
        case FinewebPosqRelease() | Colder():
            name = "colder" if isinstance(section, Colder) else "fineweb_posq"
            return FilesSource(kind="files", paths=[str(TEXTS / f"{name}.jsonl.gz")])
        case Beir():
            return BeirSource(path=str(TEXTS / "beir"))
        case PosirRelease():
            return PosirReleaseSource(path=str(TEXTS / "posir"))
    if language.startswith("cmn"):
        return FilesSource(kind="files", paths=[str(TEXTS / "cmn-Hans.jsonl.gz")])
    part = PARTS[number % len(PARTS)]
    return PythonDocsSource(kind="python_docs", part=part, min_words=20, max_words=MOST_WORDS)
