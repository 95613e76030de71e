"""What a workflow asks about the languages, domains and language pairs of its benchmarks."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from psibench.config.benchmarks import Benchmark, PosirRelease
from psibench.config.places import Place, places_of, section_at
from psibench.config.settings import Config
from psibench.errors import InputError
from psibench.translate.steps import Translate

Pair = tuple[str, str]
"""Language of the queries, language of the documents."""


class PlaceLookup:
    """Answers about languages and domains. Names of views are not known here.

    Raises
    ------
    InputError
        If a benchmark is translated from a language it does not have, or to one it has; if a
        cross-lingual pair names a language it does not have.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self._places: dict[str, list[Place]] = {}
        for name, section in config.benchmarks.items():
            self._places[name] = []
            with self._looking(f"config key benchmarks.{name}.source"):
                self._places[name] = places_of(section)
            if self._places[name]:
                self._check_languages(name)

    def places(self, name: str) -> list[Place]:
        """List the places a benchmark is read from."""
        return self._places[name]

    def place(self, name: str, language: str, domain: str) -> Place:
        """Return one place of a benchmark."""
        for place in self._places[name]:
            if (place.language, place.domain) == (language, domain):
                return place
        raise InputError(f"benchmark {name!r} has no domain {domain!r} in {language}")

    def id_prefix(self, name: str, domain: str) -> str:
        """Return what comes before the ids of a domain: its name, if a benchmark has several.

        Records of two sources are often counted or named alike. A release says itself whether its
        ids get one.
        """
        several = len({place.domain for place in self._places[name]}) > 1
        is_release = isinstance(self.config.benchmarks[name], PosirRelease)
        return f"{domain}/" if several and not is_release else ""

    def section_at(self, name: str, language: str, domain: str) -> Benchmark:
        """Return a benchmark's section as if one place were all of it."""
        return section_at(self.config.benchmarks[name], self.place(name, language, domain))

    def native_languages(self, name: str) -> list[str]:
        """List the languages a benchmark is read in, in order."""
        return list(dict.fromkeys(place.language for place in self._places[name]))

    def translation(self, name: str) -> Translate | None:
        """Return how a benchmark is translated; None if it is not."""
        return self.config.benchmarks[name].translate

    def translated_languages(self, name: str) -> list[str]:
        """List the languages a benchmark is translated to."""
        section = self.translation(name)
        return list(section.to) if section is not None else []

    def languages(self, name: str) -> list[str]:
        """List all languages of a benchmark: those it is read in, then its translations."""
        return [*self.native_languages(name), *self.translated_languages(name)]

    def source_language(self, name: str) -> str:
        """Return the language that a benchmark is translated from: its own `language`."""
        return self.config.benchmarks[name].language

    def domains_in(self, name: str, language: str) -> list[str]:
        """List a benchmark's domains in one language, in order."""
        if language in self.translated_languages(name):
            language = self.source_language(name)
        return [place.domain for place in self._places[name] if place.language == language]

    def pairs(self, name: str) -> list[Pair]:
        """List the language pairs a benchmark is evaluated on: one language, then two."""
        given = self.config.benchmarks[name].cross_lingual
        if given is None:
            source = self.source_language(name)
            crossed = [(language, source) for language in self.translated_languages(name)]
        else:
            crossed = [_split(pair) for pair in given]
        return [(language, language) for language in self.languages(name)] + crossed

    def place_pattern(self, names: Iterable[str], *, translated: bool) -> str:
        """Return a pattern for {benchmark} where a path goes on /data/{lang}/ or /build/{lang}/.

        It matches a benchmark followed by one of its own native (or translated) languages, so that
        a language may be native in one benchmark and a translation in another.
        """
        languages = self.translated_languages if translated else self.native_languages
        parts = [
            f"{re.escape(name)}(?=/(?:data|build)/(?:{'|'.join(map(re.escape, own))})/)"
            for name in sorted(set(names), reverse=True)
            if (own := languages(name))
        ]
        return "|".join(parts) or r"(?!)none"

    @contextmanager
    def _looking(self, where: str) -> Iterator[None]:
        """Surround what looks for one thing's files; errors of it say where it is named."""
        try:
            yield
        except InputError as error:
            raise error.under(where) from error

    def _check_languages(self, name: str) -> None:
        native, known = self.native_languages(name), self.languages(name)
        where = f"config key benchmarks.{name}"
        if self.translation(name) is not None:
            if self.source_language(name) not in native:
                raise InputError(
                    f"{where}.translate: it is made from the benchmark's `language`, "
                    f"{self.source_language(name)}, of which there is no corpus; there are "
                    f"{', '.join(native)}. Set `language` to one of these"
                )
            both = [language for language in self.translated_languages(name) if language in native]
            if both:
                raise InputError(
                    f"{where}.translate.to: {', '.join(both)} is a language the benchmark is read "
                    "in; name others"
                )
        for queries, documents in self.pairs(name):
            for language in (queries, documents):
                if language not in known:
                    raise InputError(
                        f"{where}.cross_lingual: {queries}-{documents}: the benchmark has no "
                        f"{language}; it has {', '.join(known)}"
                    )
            if not set(self.domains_in(name, queries)) & set(self.domains_in(name, documents)):
                raise InputError(
                    f"{where}.cross_lingual: {queries}-{documents}: no domain is in both languages"
                )


def _split(pair: str) -> Pair:
    parts = pair.split("-")
    return "-".join(parts[:2]), "-".join(parts[2:])
