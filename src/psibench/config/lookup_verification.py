"""What a workflow asks about rerankers and the benchmarks whose candidates they check."""

from collections.abc import Mapping
from typing import Any

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.lookup_places import PlaceLookup
from psibench.config.reranker_registry import checkpoint_of, reranker_params, resolve_rerankers
from psibench.config.rerankers import BiEncoderReranker, RerankerModel
from psibench.config.settings import Config
from psibench.filters.negatives import FinewebNegatives, PosirNegatives
from psibench.filters.verify import VerifyMargin, VerifySection
from psibench.models.checkpoints import checkpoint_files
from psibench.models.positions import refuse_beyond_positions
from psibench.rerankers.protocols import RERANKER_VERSIONS


class VerificationLookup(PlaceLookup):
    """Answers about a config's rerankers.

    Attributes
    ----------
    rerankers
        Those that benchmarks name, by id.

    Raises
    ------
    InputError
        If a reranker's local checkpoint does not exist or has fewer positions than its entry asks
        for.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.rerankers: Mapping[str, RerankerModel] = resolve_rerankers(config, {})
        for name in self.rerankers:
            self._check_reranker(name)

    def verification(self, name: str) -> VerifySection | None:
        """Return how a benchmark's candidates are checked; None if they are not."""
        section = self.config.benchmarks[name]
        return section.verify if isinstance(section, GeneratedBenchmark) else None

    def verify_section(self, name: str) -> VerifySection:
        """Return how the candidates of a benchmark are checked that has them checked."""
        found = self.verification(name)
        assert found is not None
        return found

    def verified(self, *, by_margin: bool) -> list[str]:
        """List the benchmarks whose candidates are checked: by margin, or by another rule."""
        sections = {name: self.verification(name) for name in self.config.benchmarks}
        return [
            name
            for name, section in sections.items()
            if section is not None and isinstance(section, VerifyMargin) is by_margin
        ]

    def panel(self, name: str) -> list[str]:
        """List the rerankers that check a benchmark's candidates, in order."""
        return list(self.verify_section(name).rerankers)

    def negatives(self, name: str) -> FinewebNegatives | PosirNegatives:
        """Return what is done about a benchmark's false negatives, where something is."""
        section = self.config.benchmarks[name]
        assert isinstance(section, GeneratedBenchmark)
        assert section.false_negatives is not None
        return section.false_negatives

    def pair_panel(self, name: str) -> list[str]:
        """List the rerankers that look for a benchmark's false negatives, in order."""
        return list(self.negatives(name).rerankers)

    def part_scoring(self, name: str, reranker: str, *, complete: bool = False) -> dict[str, Any]:
        """Return what decides a reranker's scores of the parts of a benchmark's documents.

        ``complete`` scores everything, whatever the section says.
        """
        section = self.verify_section(name).scoring(reranker, complete=complete)
        return {"section": section, **self._scorer(reranker)}

    def pair_scoring(self, name: str, reranker: str) -> dict[str, Any]:
        """Return what decides a reranker's scores of a benchmark's recalled documents."""
        return {"section": self.negatives(name).scoring(reranker), **self._scorer(reranker)}

    def scoring_tokens(self, reranker: str) -> int:
        """Return the padded tokens in one forward pass of a reranker: its own, or the settings'."""
        own = self.rerankers[reranker].tokens_per_batch
        return own or self.config.encoding.tokens_per_batch

    def _scorer(self, reranker: str) -> dict[str, Any]:
        entry = self.rerankers[reranker]
        version = RERANKER_VERSIONS[entry.backend]
        return {"entry": reranker_params(entry), "reranker_version": version}

    def scoring_mib(self, reranker: str) -> int:
        """Return the memory that a reranker takes, MiB: language models pass through it first."""
        is_causal = self.rerankers[reranker].backend in ("flag-llm", "flag-layerwise", "qwen3")
        return 24_000 if is_causal else 6000

    def reranker_files(self, reranker: str) -> list[str]:
        """List the files of a reranker's local checkpoint."""
        return checkpoint_files(checkpoint_of(self.rerankers[reranker])[0])

    def _check_reranker(self, name: str) -> None:
        with self._looking(f"reranker {name!r}"):
            self.reranker_files(name)
            entry = self.rerankers[name]
            if isinstance(entry, BiEncoderReranker):
                refuse_beyond_positions(entry.encoder)
