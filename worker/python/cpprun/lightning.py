# SPDX-License-Identifier: BSD-3-Clause
"""Reports the progress of a Lightning Trainer to cpprun.

    Trainer(..., callbacks=[CpprunCallback()])

Uses the package lightning, or pytorch_lightning if only that one is installed or imported.
"""

from __future__ import annotations

import sys
from typing import Any

from ._heartbeat import beat, logged, saved

try:
    if "pytorch_lightning" in sys.modules and "lightning.pytorch" not in sys.modules:
        raise ImportError
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback


class CpprunCallback(Callback):
    """Reports steps, their total, logged numbers and checkpoints. Does nothing outside a job."""

    def __init__(self) -> None:
        self._total: float | None = None
        self._saved: int | None = None  # the step of a checkpoint that is not yet reported

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        try:
            # inf or -1: unknown. With several optimizers, global_step counts the steps of each.
            is_one = len(trainer.optimizers) == 1
            self._total = trainer.estimated_stepping_batches if is_one else None
        except Exception:  # it may load data, which runs the user's code
            self._total = None

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any,
                             batch_idx: int) -> None:
        self._report_saved()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                           batch_idx: int) -> None:
        beat(trainer.global_step, self._total)
        # Not each step, because this waits for the GPU.
        if trainer.log_every_n_steps and trainer.global_step % trainer.log_every_n_steps == 0:
            self._report_metrics(trainer)

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any,
                                batch_idx: int, dataloader_idx: int = 0) -> None:
        if not trainer.sanity_checking:
            beat()  # a validation does not count as a hang

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            self._report_metrics(trainer)

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._saved = checkpoint.get("global_step")

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        self._saved = trainer.global_step  # Lightning writes the file after this call

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._report_saved()

    def _report_metrics(self, trainer: Any) -> None:
        found = dict(trainer.callback_metrics)
        # Lightning may have a value three times: as loss, loss_step and loss_epoch.
        logged({name: value for name, value in found.items()
                if not (name.endswith(("_step", "_epoch")) and name.rpartition("_")[0] in found)})

    def _report_saved(self) -> None:
        if self._saved is not None:
            saved(self._saved)
            self._saved = None
