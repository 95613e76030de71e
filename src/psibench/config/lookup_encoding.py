"""What a workflow asks about encoding: in how many jobs, what each needs, and what it downloads."""

import re
from collections.abc import Iterable, Iterator, Mapping

from psibench.config.benchmarks import Controlled
from psibench.config.downloads import (
    Download,
    by_name,
    model_downloads,
    reranker_downloads,
    tokenizer_downloads,
)
from psibench.config.gpus import gpus_of
from psibench.config.lookup_models import ModelLookup
from psibench.config.model_base import EncoderModel
from psibench.config.models import Model
from psibench.config.planning import PlannedTexts, planned_texts, shards_of_minutes
from psibench.config.settings import Config


class EncodingLookup(ModelLookup):
    """Answers about the encoding of a config's texts.

    Attributes
    ----------
    downloads
        What jobs read of the hub, by the names of their manifests.
    """

    def __init__(self, config: Config, models: Mapping[str, Model]) -> None:
        super().__init__(config, models)
        self._shards: dict[tuple[str, str, str], list[str]] = {}
        self._planned: dict[tuple[str, str], PlannedTexts | None] = {}
        self.downloads: dict[str, Download] = by_name(self._downloads())

    def model_files(self, model: str) -> list[str]:
        """List what a model's encoding waits for: its local checkpoint's files, or its download."""
        return self.checkpoint_files(model) + self._manifests(model_downloads(self.models[model]))

    def reranker_inputs(self, reranker: str) -> list[str]:
        """List what a reranker's scoring waits for, likewise."""
        downloads = reranker_downloads(self.rerankers[reranker])
        return self.reranker_files(reranker) + self._manifests(downloads)

    def encoder_inputs(self, model: str) -> list[str]:
        """List what the choice of personas waits for, likewise."""
        return self.encoder_files(model) + self._manifests(model_downloads(self.encoder(model)))

    def tokenizer_inputs(self) -> list[str]:
        """List what counting tokens waits for: the download of its tokenizer, or nothing."""
        return self._manifests(tokenizer_downloads(self.config.length_tokenizer))

    def _manifests(self, downloads: Iterable[Download]) -> list[str]:
        return [f"{self.config.store}/checkpoints/{one.name}.json" for one in downloads]

    def tokens_per_batch(self, model: str) -> int:
        """Return the padded tokens in one forward pass of a model: its own, or the settings'."""
        entry = self.models[model]
        assert isinstance(entry, EncoderModel)
        return entry.tokens_per_batch or self.config.encoding.tokens_per_batch

    def planned(self, name: str, language: str) -> PlannedTexts | None:
        """Return what a benchmark or view has to encode in a language; None: nobody can tell."""
        asked = self.base(name), language
        if asked not in self._planned:
            section, n_domains = self.config.benchmarks[asked[0]], len(self.domains_in(*asked))
            self._planned[asked] = planned_texts(section, language, n_domains=n_domains)
        return self._planned[asked]

    def encode_shards(self, name: str, model: str, language: str) -> list[str]:
        """List the jobs that share a model's encoding of a benchmark or view in a language.

        One where nothing is computed here, where another view's jobs encode the same documents
        before, and of a view in a language that is translated to: there are none.
        """
        asked = name, model, language
        if asked not in self._shards:
            is_there = name == self.base(name) or language in self.native_languages(self.base(name))
            is_first = is_there and not self.encoded_before(name, language)
            minutes = self._minutes(name, model, language)
            is_cut = is_first and self.is_encoded(model)
            count = shards_of_minutes(self.config.encoding, minutes) if is_cut else 1
            self._shards[asked] = [f"{number}-of-{count}" for number in range(1, count + 1)]
        return self._shards[asked]

    def threads(self, name: str, language: str) -> int:
        """Return the threads of a job that runs a model over a benchmark's or view's texts.

        2 where their number is not known.
        """
        texts = self.planned(name, language)
        return 2 if texts is None else texts.threads

    def _minutes(self, name: str, model: str, language: str) -> float | None:
        texts = self.planned(name, language)
        entry, encoding = self.models[model], self.config.encoding
        return None if texts is None else texts.gpu_minutes(entry, encoding)

    def encoder_mib(self, model: str) -> int:
        """Return the memory that loading an encoder takes, MiB: its weights in float32."""
        entry = self.models[model]
        assert isinstance(entry, EncoderModel)
        return max(6000, int(3000 + 5 * (entry.parameters_m or 0)))

    def encode_minutes(self, name: str, model: str, language: str) -> int:
        """Return the minutes that one of the jobs of an encoding asks for: half more than planned.

        At least four hours.
        """
        minutes = self._minutes(name, model, language) or 0
        return max(240, int(1.5 * minutes / len(self.encode_shards(name, model, language))))

    def gpus(self, model: str | None = None) -> int:
        """Return the GPUs that a job takes which runs a model, or a reranker (None), here."""
        return gpus_of(self.models[model] if model else None, self.config.encoding.device)

    def encoding_pattern(self, *, in_shards: bool) -> str:
        """Return a pattern for {benchmark} where a path goes on /encodings/{model}/{lang}.

        It matches where one job encodes all texts, or where several share them.
        """
        parts = []
        for name in sorted({*self.config.benchmarks, *self.views()}, reverse=True):
            ends = [
                f"{re.escape(model)}/{re.escape(language)}"
                for model in self.models
                if self.is_encoded(model)
                for language in self.languages(self.base(name))
                if (len(self.encode_shards(name, model, language)) > 1) is in_shards
            ]
            if ends:
                parts.append(f"{re.escape(name)}(?=/encodings/(?:{'|'.join(ends)})[./])")
        return "|".join(parts) or r"(?!)none"

    def _downloads(self) -> Iterator[Download]:
        for name, entry in self.models.items():
            with self._looking(f"model {name!r}"):
                yield from model_downloads(entry)
        for name, reranker in self.rerankers.items():
            with self._looking(f"reranker {name!r}"):
                yield from reranker_downloads(reranker)
        for name, section in self.config.benchmarks.items():
            if isinstance(section, Controlled):
                with self._looking(f"config key benchmarks.{name}.personas"):
                    yield from model_downloads(self.encoder(self.personas(name).model))
        with self._looking("config key length_tokenizer"):
            yield from tokenizer_downloads(self.config.length_tokenizer)
