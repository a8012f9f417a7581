# SPDX-License-Identifier: BSD-3-Clause
"""Reports the progress of a transformers.Trainer to cpprun.

    Trainer(..., callbacks=[CpprunCallback()])
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ._heartbeat import beat, logged, saved

# What the Trainer logs about its own speed, which cpprun measures too.
_NOT_SHOWN = ("_runtime", "_per_second", "_flos")


class CpprunCallback(TrainerCallback):
    """Reports steps, their total, logged numbers and checkpoints. Does nothing outside a job."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step > 0:  # the Trainer has loaded this checkpoint
            saved(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        beat(state.global_step, state.max_steps)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        beat()  # an evaluation does not count as a hang

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None,
               **kwargs: Any) -> None:
        logged({name: value for name, value in (logs or {}).items()
                if not name.endswith(_NOT_SHOWN)})

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        saved(state.global_step)
