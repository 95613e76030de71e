"""sentence-transformers' trainer with batches of one length bin, which can stop and resume.

Import it only where a model is trained, because it loads torch and sentence-transformers.
"""

import logging
import math
import shutil
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import NoDuplicatesBatchSampler
from transformers import PrinterCallback, TrainerCallback

from psibench.errors import InputError
from psibench.progress import Progress, warn
from psibench.stopping import Stop, Stopped
from psibench.train.sections import Examples, Settings

logger = logging.getLogger("psibench")

WHOLE = "whole"
"""Marker file of a complete checkpoint, written last."""
WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""
LINES = 20
"""Number of log lines with a run's loss."""


def train(
    network: Any,
    examples: Examples,
    loss: Any,
    settings: Settings,
    *,
    learning_rate: float,
    dtype: str,
    seed: int,
    unfinished: Path,
    stop: Stop,
    name: str = "training",
) -> dict[str, Any]:
    """Train a network in place; resumes from the last checkpoint in ``unfinished``, if any.

    ``network`` is a SentenceTransformer on its device, with float32 weights; ``dtype`` is the
    number format of the forward pass, float32 or bfloat16 under autocast. Returns ``loss`` of each
    step, ``n_steps``, and ``n_left_out``, the number of examples without a negative, summed over
    epochs.

    Raises
    ------
    Stopped
        If ``stop`` requests it, after writing a checkpoint.
    InputError
        If a loss is not finite, or a step does not fit in memory.
    """
    is_on_cpu = network.device.type == "cpu"
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(unfinished),
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=examples.batch_size,
        batch_sampler=DistinctBatches if examples.distinct else "batch_sampler",
        learning_rate=learning_rate,
        lr_scheduler_type="linear" if settings.schedule == "linear" else "constant",
        warmup_steps=WARMUP if settings.schedule == "linear" else 0,
        max_grad_norm=settings.max_gradient_norm or 0.0,  # 0: no clipping
        optim="adamw_torch",
        seed=seed,
        bf16=dtype == "bfloat16",
        use_cpu=is_on_cpu,
        prompts={column: prompt for column, prompt in examples.prompts.items() if prompt} or None,
        logging_steps=1,
        logging_nan_inf_filter=False,
        save_strategy="no",
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        dataloader_pin_memory=not is_on_cpu,
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # the trainer would split batches over several GPUs
    bins = {name: Dataset.from_dict(dict(part)) for name, part in examples.bins.items()}
    last = last_checkpoint(unfinished)
    with Progress(name, total=0, unit="steps") as progress:
        watch = Watch(unfinished, stop, progress, save_s=60 * settings.save_minutes)
        trainer = Trainer(
            model=network,
            args=arguments,
            train_dataset=bins,
            loss=loss,
            callbacks=[watch],
        )
        trainer.watch = watch
        trainer.remove_callback(PrinterCallback)
        try:
            trainer.train(resume_from_checkpoint=None if last is None else str(last))
        except torch.OutOfMemoryError as error:
            raise InputError(
                f"{name}: a step does not fit in the device's memory; lower mini_batch_size (for "
                "PADS: pads.batch_size) or max_tokens, or use a device with more memory"
            ) from error
    if watch.stopped is not None:
        raise watch.stopped
    network.eval()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {"loss": losses, "n_steps": len(losses), "n_left_out": trainer.n_left_out}


class DistinctBatches(NoDuplicatesBatchSampler):
    """The library's batches of distinct texts, without a last batch of a single example.

    An epoch has as many batches as if all texts were distinct; it skips examples that do not fit
    into these batches, usually different ones in each epoch.
    """

    def __len__(self) -> int:
        return len(self.dataset) // self.batch_size + (len(self.dataset) % self.batch_size >= 2)


class Trainer(SentenceTransformerTrainer):
    """The library's trainer, which gives its batches to a `Watch`."""

    watch: "Watch"
    n_left_out = 0

    def get_multi_dataset_batch_sampler(self, dataset: Any, *given: Any, **named: Any) -> Any:
        """Return the library's batches over all bins; warn about examples in no batch."""
        batches = super().get_multi_dataset_batch_sampler(dataset, *given, **named)
        self.watch.batches = batches
        if self.args.batch_sampler is not DistinctBatches:
            return batches
        n_due = n_left = 0
        for epoch in range(int(self.args.num_train_epochs)):
            batches.set_epoch(epoch)
            n_due += len(dataset)
            n_left += len(dataset) - sum(len(batch) for batch in batches if len(batch) > 1)
        if n_left:
            warn(
                f"training: {n_left:,} of {n_due:,} examples (summed over epochs) are in no batch "
                "or the only one in a batch: they exceed whole batches, or other examples of the "
                "length bin share their document or query"
            )
        self.n_left_out = n_left
        return batches

    def add_model_card_callback(self, *_: Any, **__: Any) -> None:
        """Do nothing: the library's card would scan all texts."""


class Watch(TrainerCallback):
    """Reports progress, saves a checkpoint at intervals, and ends the run on request."""

    batches: Any

    def __init__(self, unfinished: Path, stop: Stop, progress: Progress, *, save_s: float) -> None:
        self.unfinished, self.stop = unfinished, stop
        self.progress, self.save_s = progress, save_s
        self.saved = self.stepped = time.monotonic()
        self.stopped: Stopped | None = None

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Set the number of remaining steps; log a resumed run."""
        self.progress.total = state.max_steps - state.global_step
        if state.global_step:
            logger.info("resuming from step %d of %d", state.global_step, state.max_steps)

    def on_epoch_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Set the epoch's order, even if batches are both skipped and sharded."""
        self.batches.set_epoch(int(state.epoch or 0))

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step, and save or stop after it."""
        self.progress.advance(1)
        now = time.monotonic()
        step_s, self.stepped = now - self.stepped, now
        if state.global_step >= state.max_steps:
            return
        try:
            self.stop.check(2 * step_s)  # time for the next step and for saving
        except Stopped as stopped:
            self.stopped = stopped
            control.should_save = control.should_training_stop = True
        if now - self.saved >= self.save_s:
            control.should_save = True

    def on_log(self, _args: Any, state: Any, _control: Any, *, logs: Any, **_: Any) -> None:
        """Log every nth loss; raise InputError if a loss is not finite."""
        if not math.isfinite(logs.get("loss", 0)):
            raise InputError(
                f"step {state.global_step}: the loss is not a number; lower learning_rate, or set "
                "dtype: float32"
            )
        if "loss" in logs and state.global_step % max(1, state.max_steps // LINES) == 0:
            at = (state.global_step, state.max_steps, logs["loss"], logs["learning_rate"])
            logger.info("step %d of %d: loss %.4f, learning rate %.2g", *at)

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Mark the checkpoint as complete."""
        self.saved = self.stepped = time.monotonic()
        (self.unfinished / f"checkpoint-{state.global_step}" / WHOLE).touch()


def last_checkpoint(unfinished: Path) -> Path | None:
    """Return the last complete checkpoint and delete all others."""
    every = sorted(unfinished.glob("checkpoint-*"), key=_step)
    whole = [path for path in every if (path / WHOLE).is_file()]
    for path in every:
        if path not in whole[-1:]:
            shutil.rmtree(path)
    return whole[-1] if whole else None


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
