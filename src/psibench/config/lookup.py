"""What a workflow asks of a config: which runs there are, and what a job needs to know."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from psibench.config.benchmarks import Benchmark, PosirRelease
from psibench.config.lookup_encoding import EncodingLookup
from psibench.config.models import Model, RunFilesModel
from psibench.config.settings import Config
from psibench.config.views import RAW, TINY, view_id
from psibench.errors import MissingError
from psibench.models.run_files import check_run_files


class Lookup(EncodingLookup):
    """Answers about one config.

    Raises
    ------
    InputError
        If a benchmark's local source or a model's local checkpoint does not exist.
    """

    def __init__(self, config: Config, models: Mapping[str, Model]) -> None:
        from psibench.generate.recipes import source_files

        super().__init__(config, models)
        self._files: dict[tuple[str, str, str], list[str]] = {}
        for name in config.benchmarks:
            for place in self.places(name):
                section = self.section_at(name, place.language, place.domain)
                with self._looking(f"config key benchmarks.{name}.{place.key}"):
                    files = source_files(section)
                    _check_files(files)
                    self._files[name, place.language, place.domain] = files
        for name, entry in self.models.items():
            if isinstance(entry, RunFilesModel):
                with self._looking(f"model {name!r}"):
                    check_run_files(entry, list(self._runs_of(name)))

    def benchmark(self, name: str) -> Benchmark:
        """Return the section of a benchmark, or of the one that a view is of."""
        return self.config.benchmarks[self.base(name)]

    def source_files(self, name: str, language: str, domain: str) -> list[str]:
        """List the local files a benchmark's domain is read from."""
        return self._files[name, language, domain]

    def sources_of(self, name: str, language: str) -> list[str]:
        """List the local files that a benchmark's domains in a language are read from."""
        every = (self._files[name, language, domain] for domain in self.domains_in(name, language))
        return list(dict.fromkeys(path for files in every for path in files))

    def ledger_places(self, name: str) -> list[dict[str, Any]]:
        """List the languages of a benchmark with what its ledger joins of them, translations last.

        ``lang`` and ``domains``; ``documents``, ``dropped``, ``flow`` and ``usage``: tables of all
        domains, or lists of one of each.
        """
        places = []
        for language in self.languages(name):
            domains = self.domains_in(name, language)
            place: dict[str, Any] = {"lang": language, "domains": domains, "documents": []}
            if self.is_asked(name, language):
                source = self.source_language(name)
                native = source if self.is_translated(name, language) else language
                if self.is_generated(name):
                    place["documents"] = [f"results/{name}/build/{native}/documents.parquet"]
                for table in ("dropped", "flow", "usage"):
                    place[table] = self.ledger_tables(name, language, table)
            else:
                folder = f"results/{name}/build/{language}"
                place |= {"flow": [], "usage": []}
                place["dropped"] = [[f"{folder}/{domain}/dropped.parquet" for domain in domains]]
            places.append(place)
        return places

    def benchmark_languages(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every language of every benchmark."""
        for name in self.config.benchmarks:
            for language in self.languages(name):
                yield {"benchmark": name, "lang": language}

    def is_asked(self, name: str, language: str) -> bool:
        """Say whether a language model writes or translates a benchmark's texts in a language."""
        return self.is_generated(name) or language in self.translated_languages(name)

    def asked_languages(self) -> list[dict[str, Any]]:
        """List the labels of every language that a language model writes or translates.

        With its ``domains``; translations come last.
        """
        every = [
            {"benchmark": name, "lang": language, "domains": self.domains_in(name, language)}
            for name in self.config.benchmarks
            for language in self.languages(name)
            if self.is_asked(name, language)
        ]
        return sorted(every, key=lambda row: self.is_translated(row["benchmark"], row["lang"]))

    def generated_languages(self) -> list[dict[str, Any]]:
        """List the labels of every language in which a language model writes queries."""
        return [
            row
            for row in self.asked_languages()
            if not self.is_translated(row["benchmark"], row["lang"])
        ]

    def studied_languages(self) -> list[dict[str, Any]]:
        """List the labels of every language whose filter can be studied."""
        return [row for row in self.generated_languages() if row["benchmark"] in self.studied()]

    def runs(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every run: benchmark or view, model, query and corpus language.

        Views are evaluated in the languages a benchmark is read in.
        """
        for name in self.evaluated():
            base = self.base(name)
            alone = [(language, language) for language in self.native_languages(base)]
            for queries, documents in self.pairs(name) if base == name else alone:
                for model in self.models_of(name, queries, documents):
                    yield {
                        "benchmark": name,
                        "model": model,
                        "query_lang": queries,
                        "corpus_lang": documents,
                    }

    def evaluated_pairs(self) -> Iterator[dict[str, str]]:
        """Yield the labels of every language pair that some model is evaluated on."""
        seen: dict[tuple[str, ...], dict[str, str]] = {}
        for labels in self.runs():
            pair = {name: value for name, value in labels.items() if name != "model"}
            seen.setdefault(tuple(pair.values()), pair)
        return iter(seen.values())

    def compared_models(self, name: str, queries: str, documents: str) -> list[dict[str, Any]]:
        """List the models of a language pair: their tables, and what a reader has to know."""
        runs, pair = f"results/{name}/runs", f"{queries}-{documents}"
        encoded = f"results/{self.encoded_as(name, documents)}/encodings"
        return [
            {
                "model": model,
                "kind": self.models[model].kind,
                "run": f"{runs}/{model}/{pair}.parquet",
                "encodings": (
                    f"{encoded}/{model}/{documents}.parquet" if self.is_vector(model) else None
                ),
                "seen": f"{runs}/{model}/{pair}.seen.parquet" if self.is_reranker(model) else None,
                "reading_known": self.reading_known(model),
                "on_filter_panel": self.on_filter_panel(name, model),
            }
            for model in self.models_of(name, queries, documents)
        ]

    def searched_as(self, name: str, queries: str, documents: str) -> str:
        """Return the benchmark or view whose runs are those of another on a language pair.

        A run of the raw view has a benchmark's queries too, with the same documents, if the removal
        of false negatives leaves the corpus alone; so has the tiny subset's, of the benchmark. Only
        where each of them is evaluated on all models: what one leaves out is not run for another.
        """
        base = self.base(name)
        if name not in (base, view_id(base, TINY)) or queries != documents:
            return name
        if documents in self.translated_languages(base):
            return name

        def takes(view: str) -> bool:
            return self.models_of(view, queries, documents) == self.config.models

        raw = view_id(base, RAW)
        if raw in self.evaluated() and not self.negatives(base).removes_documents:
            return raw if takes(raw) and takes(name) else name
        return base if takes(base) and takes(name) else name

    def recalls_by_run(self, name: str) -> bool:
        """Say whether the run of a raw view is deep enough to recall possible false negatives."""
        recall, raw = self.negatives(name).recall, view_id(name, RAW)
        if raw not in self.evaluated() or recall.top_k > self.config.search.top_k:
            return False
        searches = self.is_lexical(recall.model) or self.is_vector(recall.model)
        return searches and all(
            recall.model in self.models_of(raw, language, language)
            for language in self.native_languages(name)
        )

    def shared_runs(self) -> list[str]:
        """List what a job takes from another view's runs: paths of runs/, {model}/{pair}.

        Of every model that searches; a reranker's have what it saw beside.
        """
        pair = "{query_lang}-{corpus_lang}"
        return [
            path
            for model in self.config.models
            if not isinstance(self.models[model], RunFilesModel)
            for path in [f"{model}/{pair}.parquet"]
            + [f"{model}/{pair}.seen.parquet"] * self.is_reranker(model)
        ]

    def sharing_pattern(self, *, shares: bool) -> str:
        """Return a pattern of {benchmark} where a path goes on to a language pair's runs or tables.

        It matches where the runs are those of another view, taken over, or all others.
        """
        parts = [
            f"{re.escape(name)}(?=/(?:runs/[^/]+|scores|tables)/{language}-{language}[.])"
            for name in self.evaluated()
            for language in self.native_languages(self.base(name))
            if self.searched_as(name, language, language) != name
        ]
        own = "|".join(parts) or r"(?!)none"
        return own if shares else f"(?!{own})(?:{self.pattern('benchmarks')})"

    def prefixes_ids(self, name: str) -> bool:
        """Say whether a benchmark's ids have the domain in front."""
        section = self.benchmark(name)
        return isinstance(section, PosirRelease) and section.prefix_ids

    def _runs_of(self, model: str) -> Iterator[tuple[Mapping[str, str], list[str]]]:
        """Yield the labels and the domains of every run of a model."""
        for row in self.runs():
            if row["model"] == model:
                pair = row["query_lang"], row["corpus_lang"]
                yield row, self.domains(row["benchmark"], *pair)

    def native_pattern(self, what: str) -> str:
        """Return a pattern of {benchmark}, of one sort, in the languages it is read in."""
        return self.place_pattern(self._ids(what), translated=False)

    def translated_pattern(self) -> str:
        """Return a pattern of {benchmark} in the languages it is translated to."""
        return self.place_pattern(self.translated(), translated=True)

    def pattern(self, what: str) -> str:
        """Return a regular expression that matches the config's own ids of one sort.

        ``having KEY``: the benchmarks whose section has a key that is not null.
        """
        # Without an id of this sort nothing may match: not even the empty string.
        names = sorted(set(self._ids(what)), reverse=True)
        return "|".join(re.escape(name) for name in names) or r"(?!)none"

    def _ids(self, what: str) -> list[str]:
        if what.startswith("having "):
            return self.having(what.removeprefix("having "))
        every = list(self.config.benchmarks)
        ids: dict[str, list[str]] = {
            "benchmarks": [*self.config.benchmarks, *self.views()],
            "own": every,
            "models": list(self.models),
            "downloads": list(self.downloads),
            **self.model_ids(),
            "languages": [language for name in every for language in self.languages(name)],
            "domains": [place.domain for name in every for place in self.places(name)],
            "generated": [name for name in every if self.is_generated(name)],
            "views": self.views(),
            "raw": self.views("raw"),
            "unpurged": [
                name
                for name in every
                if self.is_generated(name) and name not in self.having("false_negatives")
            ],
            "translated": self.translated(),
            "quality": self.translated("quality"),
            "compared_translators": self.compared_translators(),
            "studied": self.studied(),
            "direct": [name for name in every if not self.is_generated(name)],
            "tasks": [task for name in every for task in self.task_names(name)],
            "rerankers": list(self.rerankers),
            "margin": self.verified(by_margin=True),
            "verified": self.verified(by_margin=False),
        }
        return ids[what]

    def dump(self, section: Any) -> dict[str, Any]:
        """Turn a section into plain data for a job."""
        plain: dict[str, Any] = section.model_dump(mode="json")
        return plain


def _check_files(files: Iterable[str]) -> None:
    for path in files:
        if not Path(path).is_file():
            raise MissingError(
                f"no file {path!r} in {Path.cwd()}; relative paths start at the working directory"
            )
