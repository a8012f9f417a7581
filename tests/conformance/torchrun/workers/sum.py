# SPDX-License-Identifier: BSD-3-Clause
"""An unmodified PyTorch script: joins, sums, and fails in its first attempt if asked to."""

import datetime
import os
import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=10))
value = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(value)
restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(f"{os.environ['TOLD']}/{restart}.{dist.get_rank()}.sum", "w") as file:
    file.write(f"{restart} of {dist.get_world_size()}: {value.item():.0f}")
if "fail" in sys.argv and restart == "0" and dist.get_rank() == 1:
    sys.exit(1)
dist.barrier()
dist.destroy_process_group()
