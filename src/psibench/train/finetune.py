"""Stage ``train_model``: one base trained on one distribution with one seed."""

from typing import Literal

from psibench.tables.stage import stage
from psibench.train.sections import Base, Settings

MANIFEST = "model.json"


@stage("train_model", version=1)
def run_train_model(
    entry: Base,
    settings: Settings,
    *,
    distribution: str,
    seed: int,
    sampling_seed: int,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    domains: list[str],
    pairs: str,
    queries: list[str],
    corpus: list[str],
    work: str,
    model: str,
) -> None:
    """Train a base and write the checkpoint's folder; ``model`` is its model.json, written last.

    Parameters
    ----------
    entry, settings
        Of the config section `training.ID`: one of ``bases``, and ``settings``.
    distribution
        One that ``pairs`` has; ``pool`` for PADS.
    sampling_seed
        Decides which documents PADS takes.
    pairs
        TRAINING_PAIRS.
    domains, queries, corpus
        The pool's benchmark in one language; a table of each domain, in order.
    work
        Folder of checkpoints to go on from.
    model
        The manifest in the folder of the checkpoint.

    Raises
    ------
    Stopped
        If the job is told to end; run again, it goes on.
    """
    raise NotImplementedError
