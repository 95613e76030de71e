"""`limit: N`: reduces a config to N documents or queries per domain, 2 domains and 2 languages."""

from typing import TYPE_CHECKING, Any

from psibench.generate.base import GeneratedBenchmark
from psibench.generate.benchmarks import Benchmark, DocumentsBenchmark, Posir, PosirRelease
from psibench.text.languages import split_pair
from psibench.train.sections import Training

if TYPE_CHECKING:
    from psibench.plan.config import Config

FEW = 2
"""Largest number of languages, of domains per language, and of shards per task."""


def limited(config: "Config", n: int) -> "Config":
    """Return a valid config with at most ``n`` documents per domain, and few domains and languages.

    The queries of a release are limited when it is built (`psibench.generate.recipes.run_build`).
    """
    benchmarks = {name: _benchmark(one, n) for name, one in config.benchmarks.items()}
    probes = config.probes.model_copy(update={"n_documents": min(config.probes.n_documents, n)})
    training = {name: _training(one) for name, one in config.training.items()}
    update = {"benchmarks": benchmarks, "training": training, "probes": probes}
    return config.model_copy(update=update)


def _benchmark(section: Benchmark, n: int) -> Benchmark:
    update: dict[str, Any] = {}
    languages = [section.language]
    if isinstance(section, DocumentsBenchmark):
        update["n_documents"] = min(section.n_documents or n, n)
    if isinstance(section, GeneratedBenchmark):
        drawn = {"n_documents": min(section.sample.n_documents or n, n)}
        update["sample"] = section.sample.model_copy(update=drawn)
        update["shards"] = min(section.shards, FEW)
    if isinstance(section, Posir):  # a share below 1 limits the cost of large corpora
        every = section.propose_questions.model_copy(update={"share": 1.0})
        update["propose_questions"] = every
    if corpora := getattr(section, "corpora", None):
        by_language: dict[str, list[Any]] = {}
        for one in corpora:
            by_language.setdefault(one.language or section.language, []).append(one)
        languages = sorted(by_language, key=lambda one: one != section.language)[:FEW]
        update["corpora"] = [one for name in languages for one in by_language[name][:FEW]]
    if isinstance(section, PosirRelease):
        languages = list(section.languages or ())[:FEW]
        if section.cross_lingual:
            languages = [*split_pair(section.cross_lingual[0])][::-1]
        update["languages"] = languages or None
        update["domains"] = section.named_domains()[:FEW] or None
    if section.translate is not None:
        to, shards = section.translate.to[:FEW], section.translate.shards
        few = {"to": to, "shards": shards and min(shards, FEW)}
        update["translate"] = section.translate.model_copy(update=few)
        languages += to
    if section.cross_lingual and languages:
        update["cross_lingual"] = [
            pair for pair in section.cross_lingual if {*split_pair(pair)} <= {*languages}
        ]
    return section.model_copy(update=update)


def _training(section: Training) -> Training:
    """Use all examples in one length bin, because with few documents many bins would be empty."""
    bases = {
        name: base
        if base.pads is None
        else base.model_copy(update={"pads": base.pads.model_copy(update={"per_domain": None})})
        for name, base in section.bases.items()
    }
    edges = [section.edges[0], section.edges[-1]]
    return section.model_copy(update={"bases": bases, "edges": edges, "budget": None})
