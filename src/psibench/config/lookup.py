"""What a workflow asks of a config: which runs there are, and what a job needs to know."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from psibench.config.benchmarks import Benchmark
from psibench.config.lookup_views import ViewLookup
from psibench.config.models import Bm25Model, EncoderModel, Model
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.models.checkpoints import checkpoint_files


class Lookup(ViewLookup):
    """Answers about one config.

    Raises
    ------
    InputError
        If a benchmark's local source or a model's local checkpoint does not exist.
    """

    def __init__(self, config: Config, models: Mapping[str, Model]) -> None:
        from psibench.recipes.registry import source_files

        super().__init__(config)
        self.models = {**self.recall_models, **models}
        self._files: dict[str, list[str]] = {}
        for name, section in config.benchmarks.items():
            try:
                self._files[name] = source_files(section)
            except InputError as error:
                raise InputError(f"config key benchmarks.{name}.source: {error}") from error
        self._check_files()
        for name in self.models:
            self.checkpoint_files(name)

    def benchmark(self, name: str) -> Benchmark:
        """Return the section of a benchmark, or of the one that a view is of."""
        return self.config.benchmarks[self.base(name)]

    def source_files(self, name: str) -> list[str]:
        """List the local files a benchmark is read from."""
        return self._files[name]

    def checkpoint_files(self, model: str) -> list[str]:
        """List the files of a model's local checkpoint: inputs of its encoding."""
        entry = self.models[model]
        return checkpoint_files(entry.checkpoint) if isinstance(entry, EncoderModel) else []

    def domains(self, name: str) -> list[str]:
        """List the domains of a benchmark or view."""
        return [self.benchmark(name).domain]

    def languages_and_domains(self, name: str) -> list[tuple[str, str]]:
        """List a benchmark's (language, domain) folders."""
        section = self.config.benchmarks[name]
        return [(section.language, section.domain)]

    def benchmark_domains(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every domain of every benchmark."""
        for name, section in self.config.benchmarks.items():
            yield {"benchmark": name, "lang": section.language, "domain": section.domain}

    def generated_domains(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every domain whose queries a language model writes."""
        return (row for row in self.benchmark_domains() if self.is_generated(row["benchmark"]))

    def studied_domains(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every domain whose filter can be studied."""
        return (row for row in self.benchmark_domains() if row["benchmark"] in self.studied())

    def runs(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every run: benchmark or view, model, query and corpus language."""
        for name in self.evaluated():
            language = self.benchmark(name).language
            for model in self.config.models:
                yield {
                    "benchmark": name,
                    "model": model,
                    "query_lang": language,
                    "corpus_lang": language,
                }

    def is_lexical(self, model: str) -> bool:
        """Say whether a model searches texts itself rather than stored vectors."""
        return isinstance(self.models[model], Bm25Model)

    def is_vector(self, model: str) -> bool:
        """Say whether a model's texts are encoded."""
        return isinstance(self.models[model], EncoderModel)

    def pattern(self, what: str) -> str:
        """Return a regular expression that matches the config's own ids of one sort."""
        sections = self.config.benchmarks.values()
        ids: list[str] = {
            "benchmarks": [*self.config.benchmarks, *self.views()],
            "own": list(self.config.benchmarks),
            "models": list(self.models),
            "lexical": [name for name in self.models if self.is_lexical(name)],
            "vector": [name for name in self.models if self.is_vector(name)],
            "languages": [section.language for section in sections],
            "domains": [section.domain for section in sections],
            "generated": [name for name in self.config.benchmarks if self.is_generated(name)],
            "views": self.views(),
            "raw": self.views("raw"),
            "purged": self.having("false_negatives"),
            "unpurged": [
                name
                for name in self.config.benchmarks
                if self.is_generated(name) and name not in self.having("false_negatives")
            ],
            "tiny": self.having("tiny"),
            "graded": self.having("grade"),
            "audited": self.having("audit"),
            "mixed": self.having("mixtures"),
            "studied": self.studied(),
            "direct": [name for name in self.config.benchmarks if not self.is_generated(name)],
            "tasks": [task for name in self.config.benchmarks for task in self.task_names(name)],
            "rerankers": list(self.rerankers),
            "margin": self.verified(by_margin=True),
            "verified": self.verified(by_margin=False),
            "vllm": [name for name, llm in self.llms.items() if llm.backend == "vllm"],
            "served": [name for name, llm in self.llms.items() if llm.backend != "vllm"],
        }[what]
        # Without an id of this sort nothing may match: not even the empty string.
        return "|".join(re.escape(name) for name in sorted(set(ids), reverse=True)) or r"(?!)none"

    def dump(self, section: Any) -> dict[str, Any]:
        """Turn a section into plain data for a job."""
        plain: dict[str, Any] = section.model_dump(mode="json")
        return plain

    def _check_files(self) -> None:
        for name, files in self._files.items():
            for path in files:
                if not Path(path).is_file():
                    raise InputError(
                        f"config key benchmarks.{name}.source: no file {path!r} in {Path.cwd()}; "
                        "relative paths start at the working directory"
                    )
