"""Encoder backends that are a module each: its section of the registry, and the encoder.

A module here has one subclass of ``OwnBackend``. Nothing else names it: the registry takes its
section, jobs load it, and its version is among the rules' parameters.
"""

from functools import cache
from pathlib import Path
from typing import ClassVar

from psibench.config.base import find_sections
from psibench.config.model_base import EncoderModel
from psibench.models.protocols import Encoder


class OwnBackend(EncoderModel):
    """What the section of such a backend has beside its keys, ``backend`` and ``kind`` among them.

    Attributes
    ----------
    version
        Of what it computes: a part of the vectors' fingerprint and of the rules' parameters.
    """

    version: ClassVar[int]

    def load(self, folder: Path, *, device: str, dtype: str) -> Encoder:
        """Load the encoder from the checkpoint's folder, see ``load.load_encoder``."""
        raise NotImplementedError


@cache
def own_backends() -> dict[str, type[OwnBackend]]:
    """Find the sections of all modules here, by what ``backend`` says."""
    return find_sections(__name__, OwnBackend, "backend")
