"""Run a stage as a job: logging, threads, and errors without tracebacks."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from psibench.cluster.contents import refuse_changed
from psibench.cluster.head_lock import end_with_head
from psibench.config.secrets import without_keys
from psibench.errors import InputError, missing_extra
from psibench.importing import importing
from psibench.models.checkpoints import run_offline
from psibench.stopping import STOPPED_STATUS, Stopped, signals_stop_job
from psibench.tables.atomic import is_full
from psibench.tables.stage import DECLARED, RuleJob, StageVersion, call

INPUT_ERROR_STATUS = 2


def run_stage(asked: StageVersion, given: RuleJob) -> None:
    """Run a rule's stage as a job; imports only the module of this stage."""
    with job(given.log[0], threads=given.threads):
        with importing():
            import_module(asked.module)
        declared = DECLARED[asked.stage]
        if declared.offline:
            run_offline()
        call(declared, given)
        if (content := dict(given.params.items()).get("content")) is not None:
            refuse_changed(given.input, content)


@contextmanager
def job(log: str | Path | None = None, *, threads: int | None = None) -> Iterator[None]:
    """Run a stage: log to ``log``, limit its threads, and turn errors into exit codes.

    An InputError exits with 2, its message without a traceback in the log and on stderr; so do a
    missing optional package and a full disk. A job that has to stop early (``Stopped``) exits with
    75, so that the workflow runs it again. Any other exception is a bug, with its traceback in the
    log and on stderr.

    The job also stops if the head process ends.
    """
    _log_to(log)
    if threads is not None:
        _limit_threads(threads)
    logger = logging.getLogger("psibench")
    _log_node(logger)
    try:
        with signals_stop_job():
            end_with_head()
            yield
    except InputError as error:
        logger.error("%s", error)
        _print(log, f"error: {error}")
        raise SystemExit(INPUT_ERROR_STATUS) from None
    except ModuleNotFoundError as error:
        if (needs := missing_extra(error)) is None:
            logger.exception("failed")
            raise
        logger.error("this job %s", needs)
        _print(log, f"error: this job {needs}")
        raise SystemExit(INPUT_ERROR_STATUS) from None
    except Stopped as reason:
        message = f"stopped: {reason}. Finished work is stored; run again to continue."
        logger.warning("%s", message)
        _print(log, message)
        raise SystemExit(STOPPED_STATUS) from None
    except Exception as error:
        if not is_full(error):
            logger.exception("failed")
            raise
        where = getattr(error, "filename", None) or "a file of this job"
        message = (
            f"{where}: the disk is full, or your quota is used up. Finished work is stored: free "
            "some space, or move the folder, and run again to continue."
        )
        logger.error("%s", message)
        _print(log, f"error: {message}")
        raise SystemExit(INPUT_ERROR_STATUS) from None
    finally:
        for handler in logging.getLogger().handlers:
            handler.flush()


def _log_node(logger: logging.Logger) -> None:
    """Log the node and GPU of a SLURM job."""
    if job_id := os.environ.get("SLURM_JOB_ID"):
        logger.info(
            "SLURM job %s, node %s, partition %s, CUDA_VISIBLE_DEVICES=%s",
            job_id,
            os.environ.get("SLURMD_NODENAME", "?"),
            os.environ.get("SLURM_JOB_PARTITION", "?"),
            os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        )


def _print(log: str | Path | None, message: str) -> None:
    """Print to stderr, unless the log goes there."""
    if log is not None:
        print(f"psibench: {without_keys(message)}", file=sys.stderr)


class WithoutKeys(logging.Formatter):
    """A formatter that hides secret keys, also in tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text."""
        return without_keys(super().format(record))


def _log_to(path: str | Path | None) -> None:
    handler: logging.Handler = logging.StreamHandler()
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, mode="w", encoding="utf-8")
    handler.setFormatter(WithoutKeys("%(asctime)s %(levelname)s %(message)s"))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)


def _limit_threads(threads: int) -> None:
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS", "RAYON_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # Waiting threads sleep. Spinning took two thirds of the CPU time of small batches on two busy
    # cores.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)
