"""What a workflow asks about rerankers and the benchmarks whose candidates they check."""

from collections.abc import Mapping

from psibench.config.benchmarks import GeneratedBenchmark
from psibench.config.judging import FinewebNegatives, PosirNegatives
from psibench.config.lookup_places import PlaceLookup
from psibench.config.reranker_registry import checkpoint_of, resolve_rerankers
from psibench.config.rerankers import BiEncoderReranker, RerankerModel
from psibench.config.settings import Config
from psibench.config.verification import VerifyMargin, VerifySection
from psibench.models.checkpoints import checkpoint_files
from psibench.models.positions import refuse_beyond_positions


class VerificationLookup(PlaceLookup):
    """Answers about a config's rerankers.

    Attributes
    ----------
    rerankers
        Those that benchmarks name, by id.

    Raises
    ------
    InputError
        If a reranker is not known, or its local checkpoint does not exist or has fewer positions
        than its entry asks for.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.rerankers: Mapping[str, RerankerModel] = resolve_rerankers(config)
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

    def panel_until(self, name: str, reranker: str) -> list[str]:
        """List the rerankers of a benchmark up to one of them, that one the last."""
        return _until(self.panel(name), reranker)

    def negatives(self, name: str) -> FinewebNegatives | PosirNegatives:
        """Return what is done about a benchmark's false negatives, where something is."""
        section = self.config.benchmarks[name]
        assert isinstance(section, GeneratedBenchmark)
        assert section.false_negatives is not None
        return section.false_negatives

    def pair_panel(self, name: str) -> list[str]:
        """List the rerankers that look for a benchmark's false negatives, in order."""
        return list(self.negatives(name).rerankers)

    def pair_panel_until(self, name: str, reranker: str) -> list[str]:
        """List those rerankers up to one of them, that one the last."""
        return _until(self.pair_panel(name), reranker)

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


def _until(panel: list[str], reranker: str) -> list[str]:
    return panel[: panel.index(reranker) + 1]
