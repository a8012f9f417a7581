// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/causes.h"

#include <algorithm>
#include <array>

namespace cpprun {

namespace {

constexpr auto catalogue = std::to_array<Cause>({
    // --- failed starts --------------------------------------------------------------------------
    {"program_missing", "the program was not found",
     "check that the path is correct, and that the program is installed and its disk is mounted on "
     "that node"},
    {"interpreter_missing", "the program's interpreter or dynamic loader was not found",
     "install it on that node, or correct the #! line; rebuild a binary whose dynamic loader that "
     "system lacks"},
    {"not_executable", "no permission to execute the program",
     "run chmod +x on it, and check that all parent directories are accessible"},
    {"noexec_mount", "the program is on a file system that is mounted noexec",
     "copy it to a file system that allows execution, or remount this one without noexec"},
    {"wrong_machine", "the program was built for another CPU architecture",
     "build it for that node's architecture (uname -m)"},
    {"not_a_program", "the file is neither a binary nor a script with a #! line",
     "start the script with a #! line, or run it through its interpreter"},
    {"program_busy", "the program file is open for writing",
     "wait until it is written; copy a new version to another name, then rename it into place"},
    {"arguments_too_long", "the arguments and the environment exceed the kernel's limit",
     "pass long lists in a file"},
    {"start_forbidden", "the kernel refused to execute the program",
     "check for nosuid mounts, a seccomp profile, SELinux or AppArmor"},
    {"too_many_processes", "cannot create another process or thread",
     "raise the process limit (ulimit -u, or the container's pids limit), or start fewer threads "
     "(OMP_NUM_THREADS, DataLoader workers)"},
    {"too_many_files", "too many open files",
     "raise the limit on open files (ulimit -n), and check for file descriptor leaks"},
    {"log_folder_unwritable", "the worker's log files cannot be written",
     "check the permissions and free space of the log directory, or use another --log-dir"},
    {"not_started", "the worker could not be started", "see the reason in the line above"},
    // --- memory ---------------------------------------------------------------------------------
    {"out_of_memory", "killed by the kernel: out of memory",
     "give the job more memory (container or batch limit), or use less: a smaller batch, fewer "
     "DataLoader workers"},
    {"memory_refused", "a memory allocation failed",
     "raise the memory limit (ulimit -v, or the container's), or use less: a smaller batch, fewer "
     "DataLoader workers"},
    {"cuda_out_of_memory", "GPU out of memory",
     "use a smaller batch or activation checkpointing; check nvidia-smi for other processes on "
     "that GPU"},
    {"shared_memory_full", "shared memory (/dev/shm) is full",
     "enlarge it (docker run --shm-size=8g or --ipc=host), delete leftovers in /dev/shm, or use "
     "fewer DataLoader workers"},
    {"shared_memory_small",
     "access to mapped memory without backing storage (SIGBUS), and /dev/shm is small",
     "enlarge /dev/shm, which was probably full (docker run --shm-size=8g or --ipc=host), or use "
     "fewer DataLoader workers"},
    {"memory_corrupted", "heap or stack corruption",
     "find the out-of-bounds write with -fsanitize=address or valgrind; check that all libraries "
     "were built with the same compiler and torch version"},
    // --- disks and files ------------------------------------------------------------------------
    {"disk_full", "a disk is full",
     "free some space (see df -h and df -i), or write logs and checkpoints elsewhere"},
    {"disk_error", "disk I/O error",
     "check dmesg and the health of the disk or file server; try another node"},
    {"read_only", "write to a read-only file system",
     "write elsewhere, or remount it read-write; the kernel makes a failing disk read-only (see "
     "dmesg)"},
    {"stale_mount", "a network file system became unavailable",
     "remount it on that node; reopen files that were replaced on the server"},
    {"file_missing", "a file was not found",
     "check the path on that node; relative paths start in the directory cpprun was started in"},
    {"permission_denied", "permission denied for a file or port",
     "check owner and mode on that node, and the user that runs the job"},
    {"file_too_large", "a file exceeded the size limit",
     "raise the file size limit (ulimit -f), or write smaller files"},
    {"checkpoint_broken", "a checkpoint or data file is damaged or incomplete",
     "use the previous checkpoint; write checkpoints to a temporary name and rename them when "
     "complete"},
    {"checkpoint_mismatch", "the checkpoint does not match the model",
     "load it into the model it was saved from, or rename its keys (DDP adds the prefix "
     "'module.')"},
    // --- libraries and interpreters -------------------------------------------------------------
    {"library_missing", "a shared library was not found",
     "install it on that node, or add its directory to LD_LIBRARY_PATH; ldd {program} lists "
     "missing libraries"},
    {"library_mismatch", "a shared library lacks a symbol that the program needs",
     "build and run with the same versions, especially of torch; ldd {program} shows which "
     "libraries are loaded"},
    {"libc_too_old",
     "the system's C or C++ library is older than the one the program was built with",
     "build on the oldest system that the job runs on, or run it in the container it was built in"},
    {"command_missing", "a command was not found", "install it on that node, or correct PATH"},
    {"python_module_missing", "a Python module was not found",
     "set PYTHON_EXEC to a Python that has it, or install it in a virtual environment, not in the "
     "system's Python"},
    {"python_syntax", "Python syntax error",
     "correct the line in the error message, or set PYTHON_EXEC to a newer Python"},
    {"usage", "the script rejected its arguments",
     "correct the arguments that follow the script on the command line; its --help lists them"},
    // --- devices --------------------------------------------------------------------------------
    {"cuda_missing", "no usable CUDA device",
     "check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's --gpus; a CPU-only torch needs "
     "--backend gloo and .cpu()"},
    {"cuda_too_new", "the GPU or its driver does not support this build of torch",
     "install a newer driver, or a torch built for this GPU and driver"},
    {"cuda_device_number", "a GPU number is invalid or used twice",
     "use LOCAL_RANK as the device number, and start at most one worker per GPU "
     "(--nproc-per-node)"},
    {"cuda_fault", "a GPU kernel failed",
     "rerun with CUDA_LAUNCH_BLOCKING=1 to see which; the usual cause is an index out of range"},
    {"gpu_broken", "the GPU reported a hardware error",
     "remove the node from the job; see nvidia-smi -q and dmesg (NVRM: Xid)"},
    {"wrong_cpu", "illegal instruction: not supported by this CPU",
     "build for the oldest CPU in the cluster (-march), or install a build for it"},
    // --- the network itself ---------------------------------------------------------------------
    {"address_in_use", "a port or address is already in use",
     "stop the process that listens there (ss -ltnp), or choose another port; let cpprun host the "
     "store with --standalone or port 0"},
    {"network_interface", "the configured network interface has no address on this node",
     "correct GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME (see ip addr), or unset it to let cpprun "
     "choose"},
    {"stray_interface", "the network interface for collectives does not reach the other nodes",
     "unset GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME and TP_SOCKET_IFNAME to let cpprun choose, or "
     "set them to the interface that reaches the master"},
    {"name_unknown", "a host name could not be resolved",
     "use an IP address, or fix DNS or /etc/hosts on that node"},
    {"network_unreachable", "a host is unreachable from this node",
     "check routes and firewalls between the nodes, and that all use the same network"},
    {"connection_refused", "connection refused: no process listens at that address",
     "check the address and port, and that the server was started"},
    {"nccl_setup", "NCCL initialization failed",
     "rerun with NCCL_DEBUG=INFO; the usual causes are two ranks on one GPU, a small /dev/shm or a "
     "wrong NCCL_SOCKET_IFNAME"},
    // --- consequences of another worker's failure -----------------------------------------------
    {"peer_gone", "a peer closed the connection",
     "see the rank that exited first; this rank only lost its connection", true},
    {"peer_silent", "a peer did not respond in time",
     "check which rank hung, was late or had exited; init_process_group sets the timeout", true},
    {"store_gone", "the job's store was closed",
     "see the rank or node that exited first; the store closes when the round ends", true},
    {"pipe_closed", "write to a closed pipe or connection",
     "find the reader that closed it: a pipe on the command line or a peer that exited", true},
    {"told_to_end", "terminated by cpprun", "see the rank that failed first", true},
    // --- disagreements between ranks ------------------------------------------------------------
    {"peer_missing", "a peer never connected",
     "check that every rank takes RANK and WORLD_SIZE from its environment and creates the same "
     "groups in the same order"},
    {"world_disagrees", "the ranks use different world sizes",
     "take RANK and WORLD_SIZE from the environment, and start every node with the same --nnodes"},
    {"collectives_disagree", "the ranks called different collectives or passed different shapes",
     "make every rank call the same operations in the same order; TORCH_DISTRIBUTED_DEBUG=DETAIL "
     "shows where they diverge"},
    {"unused_parameters", "some parameters received no gradient in DDP",
     "pass find_unused_parameters=True, or use every output of the model in the loss"},
    // --- signals --------------------------------------------------------------------------------
    {"killed", "SIGKILL from another process; the kernel reports no out-of-memory kill",
     "find the sender: the batch system, a container's limits, another user or systemd-oomd; see "
     "dmesg, journalctl and the batch system's log"},
    {"terminated", "termination signal from another process",
     "find the sender: the batch system's time limit, a preemption or another user"},
    {"segfault", "invalid memory access",
     "get a core dump (ulimit -c unlimited) and open it in gdb; PYTHONFAULTHANDLER=1 shows the "
     "Python line"},
    {"bus_error", "access to mapped memory without backing storage (SIGBUS)",
     "check for a full /dev/shm, a full disk, or a mapped file that was shortened while in use"},
    {"arithmetic_error", "integer division by zero or overflow",
     "build with -g and open the core dump in gdb"},
    {"forbidden_call", "system call blocked by seccomp",
     "relax the container's seccomp profile (--security-opt seccomp=…), or avoid the call; dmesg "
     "names it"},
    {"cpu_time_limit", "CPU time limit exceeded",
     "raise the limit (ulimit -t, or the batch system's)"},
    {"assertion_failed", "an assertion failed",
     "see the error message for the assertion and its location"},
    {"aborted", "the program called abort()",
     "see the end of its output; a core dump (ulimit -c unlimited) shows where"},
    {"signalled", "killed by a signal that the program does not handle",
     "find the sender, or handle the signal"},
    {"hung", "the worker stopped sending heartbeats",
     "check where it hung, and the end of its output; if a step, an evaluation or a checkpoint may "
     "take that long, raise --beat-timeout"},
    {"stuck_in_kernel", "the process is in uninterruptible sleep and ignores SIGKILL",
     "check dmesg for a hung driver or disk; the process ends only when the device responds or the "
     "node reboots"},
    // --- the worker's own code ------------------------------------------------------------------
    {"dataloader_worker", "a DataLoader worker process died",
     "set num_workers=0 to see its own error; the usual causes are too little memory and a small "
     "/dev/shm"},
    {"shapes_disagree", "tensor shapes or devices do not match",
     "check the shapes and devices in the error message"},
    {"recursion", "recursion too deep",
     "find the cycle in the traceback, or raise the limit (sys.setrecursionlimit, ulimit -s)"},
    {"interrupted", "interrupted (SIGINT or Ctrl-C)",
     "ignore this if the interruption was intended"},
    {"python_exception", "uncaught Python exception",
     "see the traceback above; decorate main() with @record to include it in this report"},
    {"cpp_exception", "uncaught C++ exception",
     "catch it in main(), or use gdb (catch throw) to find where it is thrown"},
    {"recorded_error", "the worker wrote an error file and exited",
     "see the message from the error file"},
    {"left_early",
     "the rank exited with code 0 while others still communicated; it probably ran out of data",
     "give every rank the same number of batches (drop_last=True, DistributedSampler), or wrap the "
     "loop in DDP's join(); a rank without work must still take part in every collective"},
    {"node_lost", "lost contact with the node",
     "check that the machine is up, that cpprun runs there (see its output and dmesg), and that "
     "the network does not drop packets"},
    {"silent_exit", "exited with an error code; cpprun found no cause",
     "see the end of its output; --tee 3 or --redirects 3 includes it in the report"},
});

}  // namespace

std::span<const Cause> causes() {
  return catalogue;
}

const Cause* find_cause(std::string_view id) {
  const auto* found = std::find_if(catalogue.begin(), catalogue.end(),
                                   [id](const Cause& each) { return each.id == id; });
  return found == catalogue.end() ? nullptr : &*found;
}

}  // namespace cpprun
