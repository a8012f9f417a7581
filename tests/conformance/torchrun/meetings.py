# SPDX-License-Identifier: BSD-3-Clause
"""Cases with several nodes, here on one machine, and with PyTorch's own process group."""

from cases import Case, Differs, Mostly, both, code, none_left, variables
from command_line import RANKS
from endings import attempts

TELL = "{workers}/tell.py"
STATIC = ["--nnodes=2", "--master-addr=127.0.0.1", "--master-port={port}"]
C10D = ["--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=7",
        "--local-addr=127.0.0.1"]
FRESH = ("every attempt has a store of its own; torchrun keeps the old attempt's keys, and gloo "
         "connects to processes that are gone")
FIRST_ATTEMPT = ["0 of 2: 3"] * 2
BOTH_ATTEMPTS = FIRST_ATTEMPT + ["1 of 2: 3"] * 2


def sizes(run):
    """Without who is which: torchrun orders nodes of one machine by pid."""
    workers = run.workers()
    return {name: sorted(each["env"][name] for each in workers) for name in RANKS}


def all_reduced(run):
    return {"sums": sorted(path.read_text() for path in run.told.glob("*.sum"))}


CASES = [
    Case("two nodes by rank", [*STATIC, "--nproc-per-node=2", TELL],
         both(code, variables(*RANKS, "MASTER_ADDR", "TORCHELASTIC_RUN_ID")),
         nodes=[["--node-rank=0"], ["--node-rank=1"]]),
    Case("two nodes of different size", [*STATIC, TELL], both(code, variables(*RANKS)),
         nodes=[["--node-rank=0", "--nproc-per-node=1"], ["--node-rank=1", "--nproc-per-node=2"]]),
    Case("two roles", [*STATIC, TELL], both(code, variables(*RANKS)),
         nodes=[["--node-rank=0", "--role=a"],
                ["--node-rank=1", "--role=b", "--nproc-per-node=2"]]),
    Case("two nodes at an endpoint", [*C10D, "--nproc-per-node=2", TELL], both(code, sizes),
         nodes=[[], []]),
    Case("one node of one to two, after the settle window",
         ["--nnodes=1:2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}",
          "--rdzv-conf=last_call_timeout=1", TELL], both(code, variables(*RANKS))),
    Case("a failure on one of two nodes", [*STATIC, TELL, "always=1:3", "until=0"],
         both(code, none_left), nodes=[["--node-rank=0"], ["--node-rank=1"]],
         timeout=8,
         # torchrun's other node has succeeded, and waits for the failed one for five minutes.
         differs={"exit": Differs(["still there", 1], [3, 3],
                                  "a failure ends the job everywhere, with its code")}),
    Case("a restart of two nodes counts the same on both",
         [*STATIC, "--max-restarts=2", TELL, "fail=1:3", "until=0"],
         both(code, attempts), nodes=[["--node-rank=0"], ["--node-rank=1"]],
         differs={"attempts": Differs([(0, 0), (0, 1), (1, 1)], [(0, 0), (0, 1), (1, 0), (1, 1)],
                                      "a failure restarts all nodes, and counts for all")}),
    Case("gloo in PyTorch", ["--nproc-per-node=2", "{workers}/sum.py"], both(code, all_reduced)),
    Case("gloo in PyTorch restarts on one node",
         ["--nproc-per-node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}",
          "--max-restarts=1", "{workers}/sum.py", "fail"], both(code, all_reduced),
         differs={"exit": Differs(Mostly(1), 0, FRESH),
                  "sums": Differs(Mostly(FIRST_ATTEMPT), BOTH_ATTEMPTS, FRESH)}),
    Case("gloo in PyTorch restarts on two nodes",
         [*C10D, "--max-restarts=1", "{workers}/sum.py", "fail"], both(code, all_reduced),
         nodes=[[], []],
         differs={"exit": Differs(Mostly([1, 1]), [0, 0], FRESH),
                  "sums": Differs(Mostly(FIRST_ATTEMPT), BOTH_ATTEMPTS, FRESH)}),
]
