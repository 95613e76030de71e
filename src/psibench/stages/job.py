"""What surrounds a stage when it runs as a job: logging, threads, and errors in plain words."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psibench.errors import InputError

INPUT_ERROR_STATUS = 2


@contextmanager
def job(log: str | Path | None = None, *, threads: int | None = None) -> Iterator[None]:
    """Run a stage: log to ``log``, bound its threads, turn InputError into exit code 2.

    The message of an InputError goes to the log and to stderr, without a traceback. Any other
    exception is a bug: its traceback goes to both.
    """
    _log_to(log)
    if threads is not None:
        _limit_threads(threads)
    logger = logging.getLogger("psibench")
    try:
        yield
    except InputError as error:
        logger.error("%s", error)
        if log is not None:  # without one, the logger has just written to stderr
            print(f"psibench: error: {error}", file=sys.stderr)
        raise SystemExit(INPUT_ERROR_STATUS) from None
    except Exception:
        logger.exception("failed")
        raise


def _log_to(path: str | Path | None) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)


def _limit_threads(threads: int) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
