"""What a workflow asks about the models that are evaluated, and how each gets its runs."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from psibench.config.embedding_apis import EmbeddingApiModel
from psibench.config.encoders import VllmModel
from psibench.config.lookup_translation import TranslationLookup
from psibench.config.model_base import EncoderModel
from psibench.config.model_params import PRESENTATION_FIELDS, WORK_FIELDS
from psibench.config.models import Bm25Model, Model, RunFilesModel, StaticModel
from psibench.config.paths import REGISTRY
from psibench.config.registry import load_registry
from psibench.config.reranker_registry import checkpoint_of, resolve_rerankers
from psibench.config.reranking import RerankModel
from psibench.config.settings import Config
from psibench.config.views import RAW, TINY, view_id
from psibench.errors import InputError
from psibench.filters.mixtures import Tiny
from psibench.models.checkpoints import checkpoint_files
from psibench.models.positions import refuse_beyond_positions
from psibench.models.run_files import run_files


class ModelLookup(TranslationLookup):
    """Answers about a config's models.

    Attributes
    ----------
    models
        Registry entries by id: those evaluated, those that recall false negatives, and the first
        stages of rerankers.

    Raises
    ------
    InputError
        If a model's local checkpoint does not exist or has fewer positions than its entry asks for,
        or the first stage of a reranker is no model that searches.
    """

    def __init__(self, config: Config, models: Mapping[str, Model]) -> None:
        super().__init__(config)
        self.models: dict[str, Model] = {**self.recall_models, **models}
        self.models |= self._first_stages()
        checked = self.rerankers
        self.rerankers = resolve_rerankers(config, self.models)
        for name in self.rerankers.keys() - checked.keys():
            self._check_reranker(name)
        for name, entry in self.models.items():
            with self._looking(f"model {name!r}"):
                self.checkpoint_files(name)
                refuse_beyond_positions(entry)

    def models_of(self, name: str, queries: str, documents: str) -> list[str]:
        """List the models evaluated on a language pair of a benchmark or view.

        Kinds that are slow run on the tiny subset alone, where there is one.
        """
        base = self.base(name)
        own = self.config.benchmarks[base].models
        found = super().models_of(name, queries, documents)
        found = [model for model in found if own is None or model in own]
        tiny: Tiny | None = getattr(self.config.benchmarks[base], "tiny", None)
        if tiny is None or name == view_id(base, TINY):
            return found
        return [model for model in found if self.models[model].kind not in tiny.only_here]

    def model_ids(self) -> dict[str, list[str]]:
        """List the models by how they get their runs."""
        sorts: dict[str, Callable[[str], bool]] = {
            "lexical": self.is_lexical,
            "vector": self.is_vector,
            "encoded": self.is_encoded,
            "encoded by vllm": self.is_vllm,
            "encoded without vllm": lambda model: (
                self.is_encoded(model) and not self.is_vllm(model)
            ),
            "api": self.is_api,
            "reranking": self.is_reranker,
            "given": self.is_given,
        }
        return {sort: [m for m in self.models if fits(m)] for sort, fits in sorts.items()}

    def subset_params(self, name: str) -> dict[str, Any]:
        """Return what decides the tiny subset of a benchmark; not who runs on it."""
        tiny: Tiny = getattr(self.config.benchmarks[name], "tiny")  # noqa: B009
        return tiny.model_dump(mode="json", exclude={"only_here"})

    def is_lexical(self, model: str) -> bool:
        """Say whether a model searches texts itself rather than stored vectors."""
        return isinstance(self.models[model], Bm25Model)

    def is_encoded(self, model: str) -> bool:
        """Say whether a model's texts are encoded by a job of ours."""
        return isinstance(self.models[model], EncoderModel)

    def is_vllm(self, model: str) -> bool:
        """Say whether vLLM encodes a model's texts, on as many GPUs as the entry says."""
        return isinstance(self.models[model], VllmModel)

    def is_api(self, model: str) -> bool:
        """Say whether a service makes a model's vectors."""
        return isinstance(self.models[model], EmbeddingApiModel)

    def is_vector(self, model: str) -> bool:
        """Say whether a model's vectors are stored and searched."""
        return self.is_encoded(model) or self.is_api(model)

    def is_given(self, model: str) -> bool:
        """Say whether a model's runs are files of the user's."""
        return isinstance(self.models[model], RunFilesModel)

    def is_reranker(self, model: str) -> bool:
        """Say whether a model reranks the run of another one."""
        return isinstance(self.models[model], RerankModel)

    def reading_known(self, model: str) -> bool:
        """Say whether it is known what a model read of each document."""
        return not self.is_given(model)

    def position_blind(self, models: list[str]) -> str | None:
        """Return the first of some models that is a position-blind control, if one is."""
        return next((m for m in models if self.models[m].control == "position-blind"), None)

    def input_lengths(self, models: list[str]) -> list[tuple[str, str]]:
        """List pairs of models that differ in the length of their input alone, longer first."""
        shown = PRESENTATION_FIELDS | WORK_FIELDS | {"max_tokens"}
        entries = {
            model: entry.model_dump(mode="json", exclude=set(shown))
            for model in models
            if isinstance(entry := self.models[model], EncoderModel)
            and getattr(entry, "max_tokens", None) is not None
            and getattr(entry, "windows", None) is None
        }
        lengths = {model: getattr(self.models[model], "max_tokens") for model in entries}  # noqa: B009
        return [
            (longer, shorter)
            for longer in entries
            for shorter in entries
            if lengths[longer] > lengths[shorter] and entries[longer] == entries[shorter]
        ]

    def on_filter_panel(self, name: str, model: str) -> bool:
        """Say whether a model had a say in which queries are in a benchmark or view.

        It, or the same checkpoint as a reranker, is on the panel that checks candidates, recalls
        false negatives, or looks for them. The view before their removal knows the first alone;
        static embeddings are another model than the network they are of.
        """
        section = self.config.benchmarks[self.base(name)]
        verify = getattr(section, "verify", None)
        panel = [self.rerankers[one] for one in (verify.rerankers if verify else [])]
        recalls = []
        negatives = getattr(section, "false_negatives", None)
        if negatives is not None and name != view_id(self.base(name), RAW):
            panel += [self.rerankers[one] for one in negatives.rerankers]
            recalls = [negatives.recall.model]
        entry = self.models[model]
        if model in recalls:
            return True
        if isinstance(entry, Bm25Model):
            return any(one.backend == "bm25" for one in panel) or any(
                isinstance(self.models[one], Bm25Model) for one in recalls
            )
        if isinstance(entry, RerankModel):
            own = checkpoint_of(self.rerankers[entry.reranker])
        elif isinstance(entry, EncoderModel) and not isinstance(entry, StaticModel):
            own = (entry.checkpoint, entry.revision)
        else:
            return False
        others = [checkpoint_of(one) for one in panel if one.backend != "bm25"]
        others += [
            (one.checkpoint, one.revision)
            for one in (self.models[recall] for recall in recalls)
            if isinstance(one, EncoderModel)
        ]
        return own in others

    def checkpoint_files(self, model: str) -> list[str]:
        """List the files of a model's local checkpoint: inputs of its encoding."""
        entry = self.models[model]
        return checkpoint_files(entry.checkpoint) if isinstance(entry, EncoderModel) else []

    def first_stage(self, model: str) -> str:
        """Return the model whose run a reranker reranks."""
        entry = self.models[model]
        assert isinstance(entry, RerankModel)
        return entry.first_stage or self.config.search.first_stage

    def reranker_of(self, model: str) -> str:
        """Return the id of the reranker behind a model."""
        entry = self.models[model]
        assert isinstance(entry, RerankModel)
        return entry.reranker

    def run_files(self, name: str, model: str, queries: str, documents: str) -> list[str]:
        """List the files of the user's that are a model's run on a language pair."""
        entry = self.models[model]
        assert isinstance(entry, RunFilesModel)
        return run_files(
            entry,
            benchmark=name,
            query_lang=queries,
            corpus_lang=documents,
            domains=self.domains(name, queries, documents),
        )

    def domains(self, name: str, queries: str, documents: str | None = None) -> list[str]:
        """List the domains of a benchmark or view in a language, or in both of a pair."""
        base = self.base(name)
        found = self.domains_in(base, documents or queries)
        also = self.domains_in(base, queries)
        return [domain for domain in found if domain in also]

    def _first_stages(self) -> dict[str, Model]:
        known: dict[str, Model] = load_registry(REGISTRY) | self.config.registry
        found = {}
        for name, entry in self.models.items():
            if not isinstance(entry, RerankModel):
                continue
            first = self.first_stage(name)
            if first not in known or isinstance(known[first], RerankModel):
                fitting = ", ".join(sorted(_searching(known.items())))
                raise InputError(
                    f"model {name!r}: its first stage is {first!r}; allowed: a model that "
                    f"searches, as {fitting}. Set search.first_stage, or first_stage in its entry"
                )
            found[first] = known[first]
        return found


def _searching(entries: Iterable[tuple[str, Model]]) -> Iterator[str]:
    return (name for name, entry in entries if not isinstance(entry, RerankModel))
