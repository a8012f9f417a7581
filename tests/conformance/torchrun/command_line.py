# SPDX-License-Identifier: BSD-3-Clause
"""Cases about the command line: accepted and rejected arguments, and what workers are started
with."""

from cases import Case, Differs, arguments, both, code, refused, variables

TELL = "{workers}/tell.py"
RANKS = (
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE",
)
ELASTIC = (
    "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_ERROR_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES",
)

USAGE_ERROR = "a usage error is exit code 2, not a traceback and 1"
NO_FLAG = "what is executable and no .py needs no flag"
NO_GPU = "without GPUs the workers are spread over the NUMA nodes"
AMBIGUOUS = "a beginning is ambiguous between different flags only"
FLAT = "without --log-dir error files lie beside each other: a directory fewer for each worker"
ADDRESS = "the store of one machine listens on loopback; a host name need not resolve"


def invalid(name, *args, **more):
    """Both reject it; torchrun with a traceback and 1."""
    return Case(name, [*args, TELL], refused, differs={"exit": Differs(1, 2, USAGE_ERROR)}, **more)


def count(name, *args, **more):
    return Case(name, [*args, TELL], both(code, variables("WORLD_SIZE")), **more)


CASES = [
    Case("a plain command starts one worker with every variable", [TELL],
         both(code, variables(*RANKS, *ELASTIC)),
         differs={"TORCHELASTIC_ERROR_FILE": Differs(
             ["…/attempt_0/0/error.json"], ["…/attempt_0_0_error.json"], FLAT)}),
    Case("two workers and every variable", ["--nproc-per-node=2", TELL],
         both(code, variables(*RANKS, *ELASTIC)),
         differs={"TORCHELASTIC_ERROR_FILE": Differs(
             ["…/attempt_0/0/error.json", "…/attempt_0/1/error.json"],
             ["…/attempt_0_0_error.json", "…/attempt_0_1_error.json"], FLAT)}),
    Case("one machine: where the store is", [TELL], variables("MASTER_ADDR", "MASTER_PORT"),
         differs={"MASTER_ADDR": Differs(["localhost"], ["127.0.0.1"], ADDRESS)},
         # With an explicit address, torchrun does not ask a name server for its own name.
         torchrun=["--local-addr=localhost", TELL]),
    Case("a static master is where it was said to be",
         ["--master-addr=127.0.0.1", "--master-port={port}", TELL],
         both(code, variables("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"))),
    Case("c10d at an endpoint with an id",
         ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=7", TELL],
         both(code, variables("TORCHELASTIC_RUN_ID", "WORLD_SIZE"))),
    Case("standalone with an id", ["--standalone", "--rdzv-id=7", TELL],
         both(code, variables("TORCHELASTIC_RUN_ID")),
         differs={"TORCHELASTIC_RUN_ID": Differs(["random"], ["7"], "a given id is kept")}),
    count("underscores", "--nproc_per_node=2", "--max_restarts", "3"),
    count("unique beginnings", "--nproc-per=2", "--max-r=1"),
    Case("a beginning of two spellings of one flag", ["--nproc=2", TELL],
         both(code, variables("WORLD_SIZE")),
         differs={"exit": Differs(2, 0, AMBIGUOUS),
                  "WORLD_SIZE": Differs([], ["2", "2"], AMBIGUOUS)}),
    Case("dashes before the script are dropped, later ones are passed on",
         ["--", TELL, "--", "say=x", "--nnodes=9"], both(code, arguments)),
    Case("dashes right after the script are dropped", [TELL, "--", "-t", "3"],
         both(code, arguments)),
    Case("macros", [TELL, "a=$local_rank", "b=${local_rank}c", "$$x", "$HOME", "${other}"],
         arguments),
    count("PET variables are defaults", env={"PET_NPROC_PER_NODE": "3"}),
    count("the command line takes precedence over PET variables", "--nproc-per-node=2",
          env={"PET_NPROC_PER_NODE": "3"}),
    count("a PET flag that is off", env={"PET_STANDALONE": "0", "PET_NPROC_PER_NODE": "2"}),
    invalid("a PET flag that is neither 0 nor 1", env={"PET_STANDALONE": "true"}),
    Case("a PET number that is invalid", [TELL], refused, env={"PET_MAX_RESTARTS": "many"}),
    Case("an unknown flag", ["--frobnicate", TELL], refused),
    Case("a flag without a value", ["--nnodes"], refused),
    Case("a value for a flag that takes none", ["--standalone=1", TELL], refused),
    Case("no script", ["--nproc-per-node=2"], refused),
    invalid("three bounds for the nodes", "--nnodes=1:2:3"),
    invalid("a maximum of nodes below the minimum", "--nnodes=2:1"),
    invalid("no node", "--nnodes=0"),
    invalid("a number of workers that is not a number", "--nproc-per-node=many"),
    invalid("a negative number of restarts", "--max-restarts=-1"),
    Case("a number of restarts that is not a number", ["--max-restarts=x", TELL], refused),
    invalid("an unknown rendezvous", "--rdzv-backend=pigeons", "--rdzv-endpoint=localhost"),
    invalid("a setting without a value", "--rdzv-conf=join_timeout"),
    Case("a setting that does not exist", ["--rdzv-conf=join_timeuot=5", TELL], refused,
         differs={"outcome": Differs("ran", "refused", "a slip there costs a night"),
                  "exit": Differs(0, 2, "a slip there costs a night")}),
    invalid("an invalid port", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:x"),
    invalid("a module without Python", "-m", "--no-python"),
    Case("an unknown start method", ["--start-method=magic", TELL], refused),
    count("a known start method", "--start-method=fork"),
    invalid("a polling interval of zero", "--monitor-interval=0"),
    invalid("unknown logs specs", "--logs-specs=mine"),
    Case("processors near GPUs, where there are none", ["--numa-binding=node", TELL], refused,
         env={"CUDA_VISIBLE_DEVICES": ""},
         differs={"outcome": Differs("refused", "ran", NO_GPU), "exit": Differs(1, 0, NO_GPU)}),
    Case("an unknown binding", ["--numa-binding=galaxy", TELL], refused),
    count("events on the console", "--event-log-handler=console"),
    invalid("an unknown event handler", "--event-log-handler=mine"),
    invalid("a negative grace", "--shutdown-timeout=-1"),
    count("as many workers as processors", "--nproc-per-node=cpu", counts_cpus=True),
    count("auto", "--nproc-per-node=auto", counts_cpus=True),
    invalid("XPUs", "--nproc-per-node=xpu"),
    Case("a role", ["--role=trainer", "--nproc-per-node=2", TELL],
         variables("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")),
    Case("the command line of TorchX, with a role that has no name",
         ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", "--rdzv_id", "tx-1",
          "--nnodes", "1", "--nproc_per_node", "2", "--tee", "3", "--role", "", TELL],
         variables("ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE")),
    Case("a module", ["-m", "tell", "x"], both(code, arguments)),
    Case("a program without Python", ["--no-python", "{workers}/tell", "x"],
         both(code, arguments)),
    Case("a program on PATH without Python", ["--no-python", "sh", "{workers}/tell", "x"],
         both(code, arguments)),
    Case("a program, and not said so", ["{workers}/tell", "x"], both(code, arguments),
         differs={"exit": Differs(1, 0, NO_FLAG), "arguments": Differs([], [["x"]], NO_FLAG)}),
    Case("a run path", ["--run-path", TELL, "x"], both(code, arguments)),
    Case("the way of torch.distributed.launch", None, both(code, arguments),
         torchrun=["torch.distributed.launch", "--nproc-per-node=2", TELL, "x"],
         cpprun=["--pass-local-rank=local-rank", "--nproc-per-node=2", TELL, "x"]),
    Case("torch.distributed.launch with --use-env", None, both(code, arguments),
         torchrun=["torch.distributed.launch", "--use_env", TELL, "x"],
         cpprun=["--use_env", TELL, "x"]),
    Case("threads that the user counted", ["--nproc-per-node=2", TELL],
         variables("OMP_NUM_THREADS"), env={"OMP_NUM_THREADS": "5"}),
    Case("NCCL's error handling as the user set it", [TELL],
         variables("TORCH_NCCL_ASYNC_ERROR_HANDLING"),
         env={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}),
    Case("devices are passed on", ["--nproc-per-node=2", TELL],
         variables("CUDA_VISIBLE_DEVICES", "LOCAL_RANK"), env={"CUDA_VISIBLE_DEVICES": "4,2"}),
    Case("virtual local ranks", ["--virtual-local-rank", "--nproc-per-node=2", TELL],
         variables("CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "RANK", "LOCAL_WORLD_SIZE")),
    Case("virtual local ranks among named devices",
         ["--virtual-local-rank", "--nproc-per-node=2", TELL, "$local_rank"],
         both(arguments, variables("CUDA_VISIBLE_DEVICES", "LOCAL_RANK")),
         env={"CUDA_VISIBLE_DEVICES": "4, 2 ,0"}),
    Case("virtual local ranks among ROCm's devices",
         ["--virtual-local-rank", "--nproc-per-node=2", TELL],
         variables("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LOCAL_RANK"),
         env={"CUDA_VISIBLE_DEVICES": "4,2", "HIP_VISIBLE_DEVICES": "7, 5 ,1"}, since=(2, 15)),
    Case("virtual local ranks with no ROCm device named",
         ["--virtual-local-rank", "--nproc-per-node=2", TELL],
         variables("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
         env={"CUDA_VISIBLE_DEVICES": "4,2", "HIP_VISIBLE_DEVICES": ""}),
    count("a pause after a lost compare-and-set", "--standalone",
          "--rdzv-conf=cas_backoff_max_seconds=0.5"),
    invalid("a negative pause after a lost compare-and-set", "--rdzv-backend=c10d",
            "--rdzv-endpoint=localhost:{port}", "--rdzv-conf=cas_backoff_max_seconds=-1",
            since=(2, 15)),
    invalid("virtual local ranks without a device for each", "--virtual-local-rank",
            "--nproc-per-node=2", env={"CUDA_VISIBLE_DEVICES": "4"}),
    Case("workers get the signals to handle", ["--signals-to-handle=SIGTERM,SIGUSR1", TELL],
         both(code, variables("TORCHELASTIC_SIGNALS_TO_HANDLE"))),
    Case("a signal that does not exist", ["--signals-to-handle=SIGTERM,SIGFOO", TELL],
         both(code, variables("TORCHELASTIC_SIGNALS_TO_HANDLE"))),
]
