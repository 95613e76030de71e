"""sentence-transformers' trainer on batches of one length bin, which can be stopped and go on.

Imported where a model is trained, as it takes both libraries along.
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
"""File in a checkpoint of a run, written when the rest of it is there."""
WARMUP = 0.1
"""Share of the steps in which the learning rate rises."""
LINES = 20
"""Lines of a run's loss in the log."""


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
    """Train a network in place, from the last checkpoint in ``unfinished`` on if there is one.

    ``network`` is a SentenceTransformer on its device, weights in float32; ``dtype`` the number
    format of the forward pass, float32 or bfloat16 under autocast. Returns ``loss``, that of each
    step, ``n_steps``, and ``n_left_out``: how often an example had no negative in an epoch, summed
    over epochs.

    Raises
    ------
    Stopped
        If ``stop`` says so; a checkpoint is written before.
    InputError
        If a loss is not a number, or a step does not fit into the memory.
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
        max_grad_norm=settings.max_gradient_norm or 0.0,  # 0: none is cut
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
        arguments._n_gpu = 1  # one GPU a job: no batch is split
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
                f"{name}: a step does not fit into the device's memory; lower mini_batch_size (of "
                "pads: its batch_size) or max_tokens, or use a device with more memory"
            ) from error
    if watch.stopped is not None:
        raise watch.stopped
    network.eval()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return {"loss": losses, "n_steps": len(losses), "n_left_out": trainer.n_left_out}


class DistinctBatches(NoDuplicatesBatchSampler):
    """The library's batches without a text twice, but for a rest of one example.

    An epoch has as many batches as if no two examples shared a text: those that do not fit into
    them are left out of it, as a rule others in each epoch.
    """

    def __len__(self) -> int:
        return len(self.dataset) // self.batch_size + (len(self.dataset) % self.batch_size >= 2)


class Trainer(SentenceTransformerTrainer):
    """The trainer, whose batches a `Watch` knows."""

    watch: "Watch"
    n_left_out = 0

    def get_multi_dataset_batch_sampler(self, dataset: Any, *given: Any, **named: Any) -> Any:
        """Return the library's batches of all bins in one order; warn of what is in none."""
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
                f"training: {n_left:,} of {n_due:,} examples (summed over epochs) are in no batch, "
                "or alone in one: they are more than fill whole batches, or others of their length "
                "bin share their document or query"
            )
        self.n_left_out = n_left
        return batches

    def add_model_card_callback(self, *_: Any, **__: Any) -> None:
        """Leave out the library's card, for which it would look through all texts."""


class Watch(TrainerCallback):
    """Tells how far a run is, saves by the clock, and ends the run where it is told to."""

    batches: Any

    def __init__(self, unfinished: Path, stop: Stop, progress: Progress, *, save_s: float) -> None:
        self.unfinished, self.stop = unfinished, stop
        self.progress, self.save_s = progress, save_s
        self.saved = self.stepped = time.monotonic()
        self.stopped: Stopped | None = None

    def on_train_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Note how many steps there are yet, and where a run goes on."""
        self.progress.total = state.max_steps - state.global_step
        if state.global_step:
            logger.info("going on from step %d of %d", state.global_step, state.max_steps)

    def on_epoch_begin(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Choose the epoch's order, also where batches are both skipped and sharded."""
        self.batches.set_epoch(int(state.epoch or 0))

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count a step, and save or stop after it."""
        self.progress.advance(1)
        now = time.monotonic()
        step_s, self.stepped = now - self.stepped, now
        if state.global_step >= state.max_steps:
            return
        try:
            self.stop.check(2 * step_s)  # the next one, and as much to save
        except Stopped as stopped:
            self.stopped = stopped
            control.should_save = control.should_training_stop = True
        if now - self.saved >= self.save_s:
            control.should_save = True

    def on_log(self, _args: Any, state: Any, _control: Any, *, logs: Any, **_: Any) -> None:
        """Write some of the losses to the log; InputError where one is not a number."""
        if not math.isfinite(logs.get("loss", 0)):
            raise InputError(
                f"step {state.global_step}: the loss is not a number; lower learning_rate, or set "
                "dtype: float32"
            )
        if "loss" in logs and state.global_step % max(1, state.max_steps // LINES) == 0:
            at = (state.global_step, state.max_steps, logs["loss"], logs["learning_rate"])
            logger.info("step %d of %d: loss %.4f, learning rate %.2g", *at)

    def on_save(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
        """Mark the checkpoint as whole."""
        self.saved = self.stepped = time.monotonic()
        (self.unfinished / f"checkpoint-{state.global_step}" / WHOLE).touch()


def last_checkpoint(unfinished: Path) -> Path | None:
    """Return the last checkpoint that was written to its end, and delete the others."""
    every = sorted(unfinished.glob("checkpoint-*"), key=_step)
    whole = [path for path in every if (path / WHOLE).is_file()]
    for path in every:
        if path not in whole[-1:]:
            shutil.rmtree(path)
    return whole[-1] if whole else None


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])
