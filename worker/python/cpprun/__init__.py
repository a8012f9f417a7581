# SPDX-License-Identifier: BSD-3-Clause
"""cpprun for Python programs: start jobs, and report progress from workers.

    cpprun.beat(step)      in a worker, after each step: shows that it makes progress
    cpprun.saved(step)     in a worker: the checkpoint of that step is complete
    cpprun.run(args)       start a job and wait for its end
    python -m cpprun …     the cpprun program, whose workers run with this Python

beat() and saved() do nothing outside a job. Nothing here needs PyTorch.
"""

from ._heartbeat import beat, saved
from ._launch import JobFailed, run

__all__ = ["JobFailed", "beat", "run", "saved"]
