"""The models that a config trains: ids, folders, and the registry entries they are evaluated by."""

from collections.abc import Mapping
from dataclasses import dataclass

from psibench.config.encoders import SentenceTransformerModel
from psibench.train.sections import Base, Training


@dataclass(frozen=True)
class TrainedModel:
    """One base trained under one distribution with one seed.

    Attributes
    ----------
    training, base, distribution, seed
        As in the config's `training`.
    settings
        The base's section.
    """

    training: str
    base: str
    distribution: str
    seed: int
    settings: Base

    @property
    def id(self) -> str:
        """Id among the models: the base's, the distribution, and the seed."""
        return f"{self.base}-{self.distribution}-s{self.seed}"

    @property
    def folder(self) -> str:
        """Where its checkpoint lies; ``model.json`` in it is written last."""
        return f"results/training/{self.training}/models/{self.id}"

    @property
    def entry(self) -> SentenceTransformerModel:
        """The registry entry that it is evaluated by."""
        return self._entry(self.folder, self.settings.licence)

    @property
    def base_entry(self) -> SentenceTransformerModel:
        """The same of the base: what is read of the world before anything is trained."""
        entry = self._entry(self.settings.checkpoint, self.settings.licence)
        return entry.model_copy(update={"revision": self.settings.revision})

    def _entry(self, checkpoint: str, licence: str) -> SentenceTransformerModel:
        base = self.settings
        return SentenceTransformerModel(
            backend="sentence-transformers",
            checkpoint=checkpoint,
            licence=licence,
            max_tokens=base.max_tokens,
            pooling=base.pooling,
            landmark=base.landmark,
            query_prompt=base.query_prompt,
            document_prompt=base.document_prompt,
            parameters_m=base.parameters_m,
            attention=base.attention,
            description=f"{self.base} trained on {self.distribution} evidence, seed {self.seed}",
        )


def trained_models(trainings: Mapping[str, Training]) -> dict[str, TrainedModel]:
    """Return the models that trainings make, by id, in the config's order.

    Raises
    ------
    ValueError
        If two have the same id.
    """
    found: dict[str, TrainedModel] = {}
    for training, section in trainings.items():
        for base, distribution, seed in section.runs:
            model = TrainedModel(training, base, distribution, seed, section.bases[base])
            if model.id in found:
                raise ValueError(
                    f"training.{training}.bases.{base}: its model {model.id!r} is also one of "
                    f"training.{found[model.id].training}; choose another id for the base"
                )
            found[model.id] = model
    return found
