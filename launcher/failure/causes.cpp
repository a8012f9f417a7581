// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/causes.h"

#include <algorithm>
#include <array>

namespace cpprun {

namespace {

constexpr auto catalogue = std::to_array<Cause>({
    // --- failed starts --------------------------------------------------------------------------
    {"program_missing", "no program at that path",
     "check the path on this node: is it built and installed here, and is its disk mounted?"},
    {"interpreter_missing", "the interpreter that the program names was not found",
     "install that interpreter on this node, or correct the #! line; a binary names its loader, "
     "which must exist on this system"},
    {"not_executable", "this user is not allowed to execute the file",
     "chmod +x it, and check that all parent directories are accessible"},
    {"noexec_mount", "the file is on a file system that is mounted noexec",
     "copy the program to a disk that allows execution, or mount this one without noexec"},
    {"wrong_machine", "the program was built for another kind of processor",
     "build it for this node's processor; uname -m says which it is"},
    {"not_a_program", "the file is neither a binary nor a script with a #! line",
     "begin a script with #! and its interpreter, or name the interpreter in the command"},
    {"program_busy", "the program's file is open for writing",
     "wait until its copy is complete; copy to another name and rename it into place"},
    {"arguments_too_long", "arguments and environment are larger than the kernel takes",
     "pass long lists in a file"},
    {"start_forbidden", "the kernel does not allow it to be executed",
     "look for nosuid mounts, a seccomp profile, SELinux or AppArmor"},
    {"too_many_processes", "cannot create another process or thread",
     "raise the limit of processes (ulimit -u, or the container's pids limit), or start "
     "fewer threads: OMP_NUM_THREADS, DataLoader workers"},
    {"too_many_files", "cannot open another file",
     "raise the limit of open files (ulimit -n), and look for file descriptor leaks"},
    {"log_folder_unwritable", "its log files cannot be written",
     "free some space there, or use another --log-dir"},
    {"not_started", "it could not be started", "see the stage and the reason in the line above"},
    // --- memory ---------------------------------------------------------------------------------
    {"out_of_memory", "the kernel killed it because memory ran out",
     "give the job more memory (the container's or the batch system's limit), or use "
     "less: a smaller batch, fewer DataLoader workers"},
    {"memory_refused", "it requested more memory than its limit",
     "raise the limit (ulimit -v, the container's memory), or use less: a smaller batch, "
     "fewer DataLoader workers"},
    {"cuda_out_of_memory", "the GPU's memory ran out",
     "use a smaller batch or activation checkpointing; look with nvidia-smi for other "
     "processes on that GPU"},
    {"shared_memory_full", "shared memory (/dev/shm) is full",
     "enlarge it (docker run --shm-size=8g or --ipc=host), remove leftovers in /dev/shm, "
     "or use fewer DataLoader workers"},
    {"shared_memory_small",
     "it used mapped memory for which there was no space (SIGBUS), and /dev/shm is small",
     "most likely it was full and is free again by now: enlarge it (docker run --shm-size=8g or "
     "--ipc=host), or use fewer DataLoader workers"},
    {"memory_corrupted", "it found its own heap or stack corrupted",
     "a write went out of bounds: build with -fsanitize=address, or run it under "
     "valgrind; check that all libraries are built for one compiler and one torch"},
    // --- disks and files ------------------------------------------------------------------------
    {"disk_full", "a disk is full",
     "free some space (df -h and df -i show where), or write logs and checkpoints elsewhere"},
    {"disk_error", "a disk gave an input or output error",
     "look at dmesg and at the disk's or file server's health; try another node"},
    {"read_only", "it wrote to a file system that is read-only",
     "write elsewhere, or mount it for writing; a broken disk becomes read-only: see dmesg"},
    {"stale_mount", "a network file system was lost while in use",
     "mount it again on that node; a file that was replaced on the server must be reopened"},
    {"file_missing", "a file it needs was not found",
     "check the path on that node: relative paths start in the directory cpprun was started in"},
    {"permission_denied", "it was denied access to a file or a port",
     "check owner and mode on that node, and the user the job runs as"},
    {"file_too_large", "a file exceeded the size limit",
     "raise the limit of file size (ulimit -f), or write smaller files"},
    {"checkpoint_broken", "a checkpoint or data file is damaged or incomplete",
     "use the previous checkpoint; write checkpoints under another name and rename them when they "
     "are complete"},
    {"checkpoint_mismatch", "the checkpoint does not fit the model",
     "load it into the model it was saved from, or migrate its keys; the prefix module. comes from "
     "DDP"},
    // --- libraries and interpreters -------------------------------------------------------------
    {"library_missing", "a shared library it needs was not found",
     "install it on that node, or add its directory to LD_LIBRARY_PATH; ldd {program} lists what "
     "is missing"},
    {"library_mismatch", "a shared library does not have the symbols it was linked against",
     "build and run with the same versions, torch's above all; ldd {program} says which "
     "are taken"},
    {"libc_too_old", "the system's C or C++ library is older than the one it was built with",
     "build on the oldest system it will run on, or run it in the container it was built in"},
    {"command_missing", "a command that it calls was not found",
     "install it on that node, or correct PATH"},
    {"python_module_missing", "a Python module is not installed for the interpreter that ran",
     "name the Python that has it with PYTHON_EXEC, or install it in that Python's virtual "
     "environment, not in the system's Python"},
    {"python_syntax", "the script is not valid Python for this interpreter",
     "correct the line that is shown, or use a newer Python: PYTHON_EXEC names it"},
    {"usage", "it did not accept its arguments",
     "correct what follows the script on the command line; --help after it says what it "
     "takes"},
    // --- devices --------------------------------------------------------------------------------
    {"cuda_missing", "no usable CUDA device",
     "check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's --gpus; a torch built "
     "for the CPU needs --backend gloo and .cpu()"},
    {"cuda_too_new", "the GPU's driver and the CUDA that torch was built for do not fit",
     "install a newer driver, or a torch built for this GPU and this driver"},
    {"cuda_device_number", "it requested a GPU that does not exist",
     "use LOCAL_RANK as the device, and at most as many workers (--nproc-per-node) as "
     "there are GPUs"},
    {"cuda_fault", "a GPU kernel failed",
     "run again with CUDA_LAUNCH_BLOCKING=1 to see which; an index out of range is the "
     "usual reason"},
    {"gpu_broken", "the GPU reported a hardware error",
     "remove the node from the job; see nvidia-smi -q and dmesg (NVRM: Xid)"},
    {"wrong_cpu", "it used an instruction that this processor does not have",
     "build for the oldest processor of the cluster (-march), or install a build that "
     "was made for it"},
    // --- the network itself ---------------------------------------------------------------------
    {"address_in_use", "a port or address is already in use",
     "stop the process that listens there (ss -ltnp), or choose another port; let cpprun host the "
     "store with --standalone or port 0"},
    {"network_interface", "the network interface set for it has no address on this node",
     "correct GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME; ip addr lists them; if unset, cpprun "
     "chooses one"},
    {"stray_interface",
     "the network interface chosen for its collectives does not reach the other nodes",
     "unset GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME and TP_SOCKET_IFNAME, and cpprun chooses the "
     "interface that leads to the master; or name that one"},
    {"name_unknown", "a host name could not be resolved",
     "use an address, or repair DNS or /etc/hosts on that node"},
    {"network_unreachable", "a host cannot be reached from this node",
     "check routes and firewalls between the nodes, and that all use the same network"},
    {"connection_refused", "no process listened at the address it connected to",
     "check the address and port, and that the other side was started"},
    {"nccl_setup", "NCCL could not be set up",
     "run again with NCCL_DEBUG=INFO; usual reasons: two ranks on one GPU, /dev/shm too "
     "small, a wrong NCCL_SOCKET_IFNAME"},
    // --- consequences of another worker's failure -----------------------------------------------
    {"peer_gone", "a peer closed its connection",
     "look at the rank that ended first; this one only noticed", true},
    {"peer_silent", "a peer did not answer in time",
     "a rank hangs, is late or has left: look at what the others did; the timeout is "
     "init_process_group's",
     true},
    {"store_gone", "the store that its peers used was closed",
     "look at the rank or node that ended first; the store closes with the job's round", true},
    {"pipe_closed", "it wrote to a pipe or connection that its reader closed",
     "look at who read from it: a pipe on the command line or a peer that has ended", true},
    {"told_to_end", "cpprun terminated it", "look at the rank that failed first", true},
    // --- disagreements between ranks ------------------------------------------------------------
    {"peer_missing", "a peer it waited for never connected",
     "check that every rank takes RANK and WORLD_SIZE from its environment and makes the "
     "same groups in the same order"},
    {"world_disagrees", "the ranks have different values of the world size",
     "take RANK and WORLD_SIZE from the environment, and give every node the same "
     "--nnodes"},
    {"collectives_disagree", "the ranks called different collectives, or with different shapes",
     "make every rank call the same operations in the same order; "
     "TORCH_DISTRIBUTED_DEBUG=DETAIL tells where they part"},
    {"unused_parameters", "DDP waited for gradients that never came",
     "pass find_unused_parameters=True, or use every output of the model in the loss"},
    // --- signals --------------------------------------------------------------------------------
    {"killed",
     "it received SIGKILL, and the kernel's memory counters do not show an out-of-memory kill",
     "find the sender: the batch system, a container's limits, another user or systemd-oomd; see "
     "dmesg, journalctl and the batch system's log"},
    {"terminated", "another process sent it a termination signal",
     "find the sender: the batch system's time limit, a preemption or another user"},
    {"segfault", "it accessed memory that is not its own",
     "a core dump (ulimit -c unlimited) and gdb show where; PYTHONFAULTHANDLER=1 shows "
     "the Python line"},
    {"bus_error", "it used mapped memory for which there was no space (SIGBUS)",
     "look for a full /dev/shm, a full disk, or a mapped file that was shortened while "
     "in use"},
    {"arithmetic_error", "it divided an integer by zero, or overflowed in a division",
     "build with -g and look at the core dump with gdb"},
    {"forbidden_call", "it made a system call that a filter (seccomp) forbids",
     "loosen the container's seccomp profile (--security-opt seccomp=…), or avoid the "
     "call; dmesg names it"},
    {"cpu_time_limit", "it used up its CPU time",
     "raise the limit (ulimit -t, or the batch system's)"},
    {"assertion_failed", "an assertion in it failed", "the line above says which and where"},
    {"aborted", "it ended itself with abort()",
     "see the end of its output; a core dump (ulimit -c unlimited) shows where"},
    {"signalled", "a signal that it does not handle killed it",
     "find out who sent it, or handle it"},
    {"hung", "it had made progress, and has shown none for too long",
     "look where it hangs, and at what it said last; if a step, an evaluation or a checkpoint may "
     "take that long, raise --beat-timeout"},
    {"stuck_in_kernel", "it is in uninterruptible sleep and ignores SIGKILL",
     "a driver or a disk hangs: see dmesg; only the disk's return or a reboot ends it"},
    // --- the worker's own code ------------------------------------------------------------------
    {"dataloader_worker", "a DataLoader worker process ended",
     "try num_workers=0 to see its own error; memory and /dev/shm are the usual reasons"},
    {"shapes_disagree", "the shapes or devices of tensors do not match",
     "check the shapes and devices in the line above"},
    {"recursion", "it recursed too deeply",
     "look for the cycle in the traceback, or raise the limit (sys.setrecursionlimit, "
     "ulimit -s)"},
    {"interrupted", "it was interrupted", "nothing to repair, if that was meant"},
    {"python_exception", "uncaught Python exception",
     "see the traceback above; decorate main() with @record to include it in this report"},
    {"cpp_exception", "uncaught C++ exception",
     "catch it in main, or look with gdb (catch throw) where it comes from"},
    {"recorded_error", "it left an error in its error file and ended",
     "the message says what was wrong; whatever wrote that file knows more"},
    {"left_early",
     "it exited with 0 while others still communicated; most likely its data ended first",
     "give every rank the same number of batches (drop_last=True, DistributedSampler), or wrap the "
     "loop in DDP's join(); a rank that has no work must still take part in every collective"},
    {"node_lost", "lost contact with its node",
     "check that the machine is up, that its cpprun runs (see its output and dmesg there), and "
     "that the network does not drop packets"},
    {"silent_exit", "it exited with that code, and cpprun found no reason",
     "see the end of its output; with --tee 3 or --redirects 3 the report includes it"},
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
