// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/failure/causes.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>

namespace cpprun {

namespace {

constexpr auto catalogue = std::to_array<Cause>({
    // --- failed starts --------------------------------------------------------------------------
    {"program_missing", "the program was not found",
     "check that the path is correct, and that the program is installed and its disk is mounted on "
     "that node"},
    {"interpreter_missing", "the program's interpreter or dynamic loader was not found",
     "install it on that node, or correct the #! line; if a binary's dynamic loader is missing, "
     "rebuild the binary for that system"},
    {"not_executable", "no permission to execute the program",
     "run chmod +x on it, and check that all parent directories are accessible"},
    {"noexec_mount", "the program is on a file system that is mounted noexec",
     "copy it to a file system that allows execution, or remount this one without noexec"},
    {"wrong_machine", "the program was built for another CPU architecture",
     "build it for that node's architecture (uname -m)"},
    {"not_a_program", "the file is neither a binary nor a script with a #! line",
     "start the script with a #! line, or run it through its interpreter"},
    {"program_busy", "the program file is open for writing",
     "wait until the file is complete, then start the job again; to avoid this, copy a new version "
     "to another name and then rename it into place"},
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
     "access to mapped memory without backing storage (SIGBUS), probably because /dev/shm is too "
     "small",
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
     "check the path on that node; relative paths start at the directory where cpprun was started"},
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
     "set PYTHON_EXEC to a Python that has it, or install it in a virtual environment and set "
     "PYTHON_EXEC to the Python of that environment"},
    {"python_syntax", "Python syntax error",
     "correct the line in the error message, or set PYTHON_EXEC to a newer Python"},
    {"usage", "the script rejected its arguments",
     "correct the arguments that follow the script on the command line; its --help lists them"},
    // --- devices --------------------------------------------------------------------------------
    {"cuda_missing", "no usable CUDA device",
     "check nvidia-smi, CUDA_VISIBLE_DEVICES and the container's --gpus; with a CPU-only torch, "
     "use "
     "the gloo backend and keep the tensors on the CPU"},
    {"cuda_too_new", "the GPU or its driver does not support this build of torch",
     "install a newer driver, or a torch built for this GPU and driver"},
    {"cuda_device_number", "a GPU number is invalid or used twice",
     "use LOCAL_RANK as the device number (torch.cuda.set_device, or device_id of "
     "init_process_group), and start at most one worker per GPU (--nproc-per-node)"},
    {"cuda_fault", "a GPU kernel failed",
     "rerun with CUDA_LAUNCH_BLOCKING=1 to see which; the usual cause is an index out of range"},
    {"gpu_broken", "the GPU reported a hardware error",
     "remove the node from the job; see nvidia-smi -q and dmesg (NVRM: Xid)"},
    {"wrong_cpu", "illegal instruction: not supported by this CPU",
     "build for the oldest CPU in the cluster (-march), or install a build for it"},
    // --- the network itself ---------------------------------------------------------------------
    {"address_in_use", "a port or address is already in use",
     "stop the process that listens there (ss -ltnp), or choose another port; for a job on one "
     "machine, use --standalone, which takes a free port"},
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
     "run cpprunctl stacks while the job hangs, or start it with --hang-timeout: both name the "
     "rank that the others wait for; init_process_group sets the timeout",
     true},
    {"store_gone", "the job's store was closed",
     "see the rank or node that exited first; the store closes when the round ends", true},
    {"pipe_closed", "write to a closed pipe or connection",
     "find the reader that closed it: the next program in the shell pipeline, or a peer that "
     "exited",
     true},
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
    {"no_progress", "no rank made progress",
     "see the message 'the job is hung' in the output: it shows what the ranks were doing; if a "
     "step can take that long without output, I/O or CPU use, raise --hang-timeout"},
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
     "see the traceback; if main() is decorated with @record, the report includes all of it"},
    {"cpp_exception", "uncaught C++ exception",
     "see the message of the exception in the report; to find where it is thrown, use gdb (catch "
     "throw)"},
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
     "see the end of its output; --redirects 3 keeps stdout and stderr in log files"},
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

namespace {

constexpr int shell_signal_base = 128;  // a shell exits with 128 + signal if its command is killed

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool has_one(std::string_view text, const std::array<std::string_view, N>& parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return !part.empty() && has(text, part); });
}

bool holds(Fact fact, const HostEvidence& around) {
  const auto shm = [](const std::string& disk) { return disk == "/dev/shm"; };
  switch (fact) {
    case Fact::none:
      return true;
    case Fact::oom_kill:
      return around.oom_kills > 0;
    case Fact::oom_kill_nearby:
      return around.oom_kills_on_machine > 0;
    case Fact::shm_full:
      return std::any_of(around.full_disks.begin(), around.full_disks.end(), shm);
    case Fact::shm_small:
      return !around.small_shm.empty();
    case Fact::disk_full:
      return !around.full_disks.empty();
  }
  return false;
}

bool kernel_said(const EndRule& rule, const HostEvidence& around) {
  if (rule.kernel.front().empty()) return true;
  return std::any_of(around.kernel_lines.begin(), around.kernel_lines.end(),
                     [&](const std::string& line) { return has_one(line, rule.kernel); });
}

std::string_view by_start(const SpawnError& error, const HostEvidence& around) {
  const bool exec = error.stage == SpawnStage::exec;
  const bool logs = error.stage == SpawnStage::log_directory ||
                    error.stage == SpawnStage::stdout_target ||
                    error.stage == SpawnStage::stderr_target;
  for (const EndRule& rule : end_rules()) {
    if (rule.exec_fault != ExecFault::none && exec && rule.exec_fault == around.exec_fault) {
      return rule.cause;
    }
    // Rules about the program do not apply to a failure to open its log file.
    const bool meant = rule.error_number != 0 && (exec || rule.any_stage);
    if (meant && rule.error_number == error.error_number) return rule.cause;
  }
  return logs ? "log_folder_unwritable" : "not_started";
}

std::string_view by_signal(int signal, const HostEvidence& around) {
  for (const EndRule& rule : end_rules()) {
    const bool same = rule.signal != 0 && rule.signal == signal;
    if (same && holds(rule.fact, around) && kernel_said(rule, around)) return rule.cause;
  }
  return "";
}

// The same for a signal that has ended a worker, for which there is always a cause.
std::string_view by_deadly_signal(int signal, const HostEvidence& around) {
  const auto cause = by_signal(signal, around);
  return cause.empty() ? "signalled" : cause;
}

std::string_view by_code(int code) {
  for (const EndRule& rule : end_rules()) {
    if (rule.code != 0 && rule.code == code) return rule.cause;
  }
  return "";
}

// Removes the "[rank3]: " prefix that torch puts before each line of a traceback.
std::string_view without_rank(std::string_view line) {
  if (!line.starts_with("[rank")) return line;
  const auto end = line.find("]:");
  if (end == std::string_view::npos) return line;
  line.remove_prefix(end + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

// A log line such as "[W1121 08:05:42.1 socket.cpp:1] …". Background threads log lost connections
// long after the main thread ended for another reason.
bool is_remark(std::string_view line) {
  line = without_rank(line);
  return line.size() > 2 && line[0] == '[' && (line[1] == 'W' || line[1] == 'I') &&
         std::isdigit(static_cast<unsigned char>(line[2])) != 0;
}

using Lines = std::vector<std::string>;

// The index of the exception line of the last traceback; lines.size() if there is no traceback.
// Chained exceptions print several tracebacks, and the last one ended the worker.
std::size_t exception_at(const Lines& lines) {
  std::size_t found = lines.size();
  bool inside = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto line = without_rank(lines[i]);
    if (has(line, "Traceback (most recent call last)")) {
      inside = true;
    } else if (inside && !line.empty() && line.front() != ' ') {
      found = i;
      inside = false;
    }
  }
  return found;
}

std::size_t line_with(const Lines& lines, std::string_view words) {
  std::size_t i = 0;
  while (i < lines.size() && !has(lines[i], words)) ++i;
  return i;
}

// Where the output about the worker's end begins: at the exception of a traceback, or at the C++
// library's message about termination. Otherwise at the first line, since any line may matter.
std::size_t last_words_begin(const Lines& lines) {
  if (const auto at = exception_at(lines); at < lines.size()) return at;
  const auto at = line_with(lines, "terminate called");
  return at < lines.size() ? at : 0;
}

// The last line is tried first.
Verdict by_words(const Lines& lines) {
  const auto begin = last_words_begin(lines);
  for (std::size_t i = lines.size(); i > begin; --i) {
    if (is_remark(lines[i - 1])) continue;
    const auto line = without_rank(lines[i - 1]);
    if (const auto cause = cause_of_words(line); !cause.empty()) return {cause, std::string(line)};
  }
  return {};
}

Verdict by_kind_of_end(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& lines = worker_output.lines;
  if (auto exception = python_exception(lines); !exception.empty()) {
    return {"python_exception", std::move(exception)};
  }
  if (const auto at = line_with(lines, "terminate called"); at < lines.size()) {
    const bool told = at + 1 < lines.size() && has(lines[at + 1], "what():");
    return {"cpp_exception", lines[told ? at + 1 : at]};
  }
  if (!worker_output.recorded.empty()) {
    switch (worker_output.recorder) {
      case Recorder::python:
        return {"python_exception", ""};
      case Recorder::cpp:
        return {"cpp_exception", ""};
      case Recorder::unknown:
        return {"recorded_error", ""};
    }
  }
  const auto& status = evidence.outcome.status;
  if (status.signalled) return {status.value == SIGABRT ? "aborted" : "signalled", ""};
  const auto cause = by_code(status.value);
  return {cause.empty() ? "silent_exit" : cause, ""};
}

// Judges the text of its error file or, without one, of its stderr.
Verdict by_own_words(const WorkerOutput& worker_output) {
  if (worker_output.recorded.empty()) return by_words(worker_output.lines);
  const auto cause = cause_of_words(worker_output.recorded);
  return cause.empty() ? Verdict{} : Verdict{cause, worker_output.recorded};
}

// For a worker that cpprun had sent a signal. It either obeyed, or was already failing.
Verdict after_our_signal(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& outcome = evidence.outcome;
  const auto& status = outcome.status;
  if (outcome.obeyed() || outcome.our_signal == SIGKILL) return {"told_to_end", ""};
  // A signal that asks a worker to stop does not make it crash. A SIGKILL that cpprun did not send
  // must have come before our signal: a large process takes longer to die of it than its peers take
  // to notice.
  const bool crashed = status.signalled && status.value != SIGABRT;
  if (crashed) return {by_deadly_signal(status.value, evidence.host_facts), ""};
  auto verdict = by_own_words(worker_output);
  if (verdict.cause.empty()) {
    auto exception = python_exception(worker_output.lines);
    if (!exception.empty()) verdict = {"python_exception", std::move(exception)};
  }
  const bool said_why = !verdict.cause.empty() && verdict.cause != "interrupted";
  return said_why ? verdict : Verdict{"told_to_end", ""};
}

bool matches(const WordRule& rule, std::string_view line) {
  const bool wants_more = !rule.also.front().empty();
  return has_one(line, rule.said) && (!wants_more || has_one(line, rule.also));
}

}  // namespace

std::string_view cause_of_words(std::string_view line) {
  const auto rules = word_rules();
  const auto rule =
      std::ranges::find_if(rules, [line](const auto& each) { return matches(each, line); });
  return rule == rules.end() ? std::string_view() : rule->cause;
}

bool shows_timeout(std::string_view line) {
  const auto says_so = [line](const WordRule& rule) {
    return rule.is_timeout && matches(rule, line);
  };
  return std::ranges::any_of(word_rules(), says_so) && !is_remark(line);
}

bool gave_up_waiting(const std::vector<std::string>& lines, bool has_exited) {
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    if (is_remark(*line)) continue;
    const Cause* const cause = find_cause(cause_of_words(*line));
    if ((cause != nullptr && cause->consequence) || shows_timeout(*line)) return true;
    if (!has_exited) return false;
  }
  return false;
}

std::string python_exception(const std::vector<std::string>& lines) {
  const auto at = exception_at(lines);
  return at < lines.size() ? std::string(without_rank(lines[at])) : std::string();
}

namespace {

// Whether this failure is typical of workers that use an interface on which they reach no peer.
bool comes_of_stray_interface(const Verdict& verdict, const link::ExitStatus& status) {
  constexpr std::array<std::string_view, 7> usual = {
      "peer_gone",           "peer_silent",       "peer_missing", "connection_refused",
      "network_unreachable", "network_interface", "nccl_setup"};
  if (std::find(usual.begin(), usual.end(), verdict.cause) != usual.end()) return true;
  // Its output was not captured. Exit code 1 is what any uncaught Python exception yields.
  if (verdict.cause == "silent_exit") return !status.signalled && status.value == 1;
  const bool uncaught = verdict.cause == "python_exception" || verdict.cause == "cpp_exception";
  constexpr std::array<std::string_view, 4> of_groups = {"gloo", "Gloo", "NCCL", "connectFullMesh"};
  return uncaught && has_one(verdict.line, of_groups);
}

Verdict judge_end(const Evidence& evidence, const WorkerOutput& worker_output) {
  const auto& outcome = evidence.outcome;
  const auto& around = evidence.host_facts;
  if (outcome.hung_for) return {outcome.verdict.empty() ? "hung" : "no_progress", ""};
  if (outcome.good()) return {};
  if (outcome.given_up) return {"stuck_in_kernel", ""};
  if (outcome.spawn_error) return {by_start(*outcome.spawn_error, around), ""};
  if (outcome.our_signal != 0) return after_our_signal(evidence, worker_output);
  // Programs call abort() after they have printed the reason.
  const auto& status = outcome.status;
  const bool spoke = !status.signalled || status.value == SIGABRT;
  const int signal = status.signalled                   ? status.value
                     : status.value > shell_signal_base ? status.value - shell_signal_base
                                                        : 0;
  if (!spoke) return {by_deadly_signal(signal, around), ""};
  if (auto verdict = by_own_words(worker_output); !verdict.cause.empty()) {
    // The kernel kills the largest process, often a child of the worker.
    const bool child = verdict.cause == "dataloader_worker" && around.oom_kills > 0;
    return child ? Verdict{"out_of_memory", verdict.line} : verdict;
  }
  // A shell that ran the program reports its signal in the exit code.
  if (const auto cause = by_signal(signal, around); !cause.empty() && !status.signalled) {
    return {cause, ""};
  }
  return by_kind_of_end(evidence, worker_output);
}

}  // namespace

Verdict judge_cause(const Evidence& evidence, const WorkerOutput& worker_output) {
  auto verdict = judge_end(evidence, worker_output);
  const bool strayed = !evidence.host_facts.unreachable_interface.empty();
  if (strayed && comes_of_stray_interface(verdict, evidence.outcome.status)) {
    verdict.cause = "stray_interface";
  }
  return verdict;
}

// The rules. To add one: find or add its cause above, add a line here above more general
// rules, and reproduce the failure in tests/failures. docs/failures.md describes all steps.

namespace {

constexpr auto about_ends = std::to_array<EndRule>({
    // --- failed starts: what was found wrong with the file, then the errno alone ---------------
    {.cause = "noexec_mount", .exec_fault = ExecFault::noexec_mount},
    {.cause = "wrong_machine", .exec_fault = ExecFault::wrong_machine},
    {.cause = "interpreter_missing", .exec_fault = ExecFault::missing_interpreter},
    {.cause = "not_a_program", .exec_fault = ExecFault::no_magic},
    {.cause = "program_missing", .error_number = ENOENT},
    {.cause = "program_missing", .error_number = ENOTDIR},
    {.cause = "not_executable", .error_number = EACCES},
    {.cause = "not_a_program", .error_number = ENOEXEC},
    {.cause = "library_missing", .error_number = ELIBBAD},
    {.cause = "program_busy", .error_number = ETXTBSY},
    {.cause = "arguments_too_long", .error_number = E2BIG},
    {.cause = "start_forbidden", .error_number = EPERM},
    {.cause = "too_many_processes", .error_number = EAGAIN, .any_stage = true},
    {.cause = "too_many_files", .error_number = EMFILE, .any_stage = true},
    {.cause = "too_many_files", .error_number = ENFILE, .any_stage = true},
    {.cause = "memory_refused", .error_number = ENOMEM, .any_stage = true},
    {.cause = "disk_full", .error_number = ENOSPC, .any_stage = true},
    {.cause = "disk_full", .error_number = EDQUOT, .any_stage = true},
    {.cause = "disk_error", .error_number = EIO, .any_stage = true},
    {.cause = "read_only", .error_number = EROFS, .any_stage = true},
    // --- signals that cpprun did not send -------------------------------------------------------
    {.cause = "out_of_memory", .signal = SIGKILL, .kernel = {"Killed process", "oom-kill"}},
    {.cause = "out_of_memory", .signal = SIGKILL, .fact = Fact::oom_kill},
    {.cause = "out_of_memory", .signal = SIGKILL, .fact = Fact::oom_kill_nearby},
    {.cause = "killed", .signal = SIGKILL},
    {.cause = "shared_memory_full", .signal = SIGBUS, .fact = Fact::shm_full},
    {.cause = "disk_full", .signal = SIGBUS, .fact = Fact::disk_full},
    {.cause = "shared_memory_small", .signal = SIGBUS, .fact = Fact::shm_small},
    {.cause = "bus_error", .signal = SIGBUS},
    {.cause = "segfault", .signal = SIGSEGV},
    {.cause = "wrong_cpu", .signal = SIGILL},
    {.cause = "arithmetic_error", .signal = SIGFPE},
    {.cause = "forbidden_call", .signal = SIGSYS},
    {.cause = "cpu_time_limit", .signal = SIGXCPU},
    {.cause = "file_too_large", .signal = SIGXFSZ},
    {.cause = "pipe_closed", .signal = SIGPIPE},
    {.cause = "terminated", .signal = SIGTERM},
    {.cause = "interrupted", .signal = SIGINT},
    {.cause = "terminated", .signal = SIGHUP},
    {.cause = "terminated", .signal = SIGQUIT},
    // --- exit codes of a shell or the loader, if no output said more ----------------------------
    {.cause = "command_missing", .code = 127},
    {.cause = "not_executable", .code = 126},
});

constexpr auto about_words = std::to_array<WordRule>({
    // --- memory ---------------------------------------------------------------------------------
    {"cuda_out_of_memory",
     {"CUDA out of memory", "CUDA error: out of memory", "Cuda failure 'out of memory'",
      "HIP out of memory", "CUDA_ERROR_OUT_OF_MEMORY"}},
    {"shared_memory_full",
     {"insufficient shared memory (shm)", "out of shared memory", "unable to open shared memory",
      "unable to write to file </torch_", "unable to allocate shared memory(shm)"}},
    {"shared_memory_full", {"/dev/shm"}, {"No space left on device"}},
    {"memory_refused",
     {"std::bad_alloc", "DefaultCPUAllocator: can't allocate memory",
      "DefaultCPUAllocator: not enough memory", "MemoryError", "Cannot allocate memory",
      "out of memory"}},
    {"memory_corrupted",
     {"stack smashing detected", "double free or corruption", "corrupted size vs. prev_size",
      "buffer overflow detected", "AddressSanitizer:", "munmap_chunk(): invalid pointer"}},
    {"memory_corrupted", {"malloc(): ", "free(): ", "realloc(): ", "malloc_consolidate(): "}},
    // --- consequences of another worker's failure -----------------------------------------------
    {"peer_gone",
     {"Connection closed by peer", "Connection reset by peer", "Connection closed by remote peer",
      "ncclRemoteError", "NCCL communicator was aborted", "ConnectionResetError"}},
    {"store_gone",
     {"Failed to recv, got 0 bytes", "failed to recv, got 0 bytes", "TCPStore", "DistNetworkError",
      "recvValue failed", "sendBytes failed"},
     {"Broken pipe", "Connection reset", "got 0 bytes", "Connection was likely closed",
      "Connection refused"}},
    {"pipe_closed", {"Broken pipe", "BrokenPipeError"}},
    {"peer_gone", {"ProcessGroupGloo", "gloo", "c10d", "tcp/pair.cc"}, {"Connection refused"}},
    {"peer_silent",
     {"Watchdog caught collective operation timeout", "due to a collective timeout",
      "failed to pass monitoredBarrier", "Application timeout caused pair closure",
      "Aborting process due to timeout"},
     {},
     /*is_timeout=*/true},
    {"peer_silent", {"Operation timed out after"}, {"NCCL", "nccl"}, /*is_timeout=*/true},
    {"peer_silent",
     {"Timed out waiting", "timed out waiting"},
     {"recv operation", "send operation"},
     /*is_timeout=*/true},
    {"peer_silent",
     {"gloo", "Gloo"},
     {"Connect timeout", "timed out", "Timed out"},
     /*is_timeout=*/true},
    {"peer_silent", {"Timeout waiting for key", "but received errors"}},
    {"told_to_end", {"SignalException", "got signal: 15"}},
    // --- disagreements between ranks ------------------------------------------------------------
    {"peer_missing", {"wait timeout after", "clients joined"}, {}, /*is_timeout=*/true},
    {"peer_missing", {"waiting for clients.", "Socket Timeout", "Timed out after"}},
    {"world_disagrees",
     {"rank < size", "is not less than world size", "world_size mismatch", "WORLD_SIZE",
      "invalid rank", "Invalid rank"},
     {"enforce fail", "ValueError", "RuntimeError", "AssertionError", "KeyError", "expected"}},
    {"collectives_disagree",
     {"op.preamble.length <= op.nbytes", "Detected mismatch between collectives",
      "running different collectives", "Detected mismatch in collective"}},
    {"unused_parameters", {"Expected to have finished reduction in the prior iteration"}},
    // --- devices --------------------------------------------------------------------------------
    {"gpu_broken",
     {"uncorrectable ECC error", "fallen off the bus", "unspecified launch failure", "NVLink error",
      "CUDA error: hardware"}},
    {"cuda_missing",
     {"No CUDA GPUs are available", "Torch not compiled with CUDA enabled",
      "Found no NVIDIA driver", "no CUDA-capable device is detected",
      "torch.cuda.is_available() is False", "Could not run 'aten::empty"}},
    {"cuda_too_new",
     {"driver version is insufficient", "NVIDIA driver on your system is too old",
      "no kernel image is available", "forward compatibility was attempted"}},
    {"cuda_device_number", {"invalid device ordinal", "Duplicate GPU detected"}},
    {"cuda_fault",
     {"device-side assert triggered", "illegal memory access was encountered", "misaligned address",
      "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error"}},
    {"nccl_setup",
     {"ncclSystemError", "ncclInternalError", "ncclInvalidUsage", "ncclUnhandledCudaError",
      "NCCL WARN Bootstrap"}},
    {"cuda_fault", {"CUDA error:", "CUDA driver error:"}},
    // --- disks ----------------------------------------------------------------------------------
    {"disk_full", {"No space left on device", "Disk quota exceeded"}},
    {"disk_error", {"Input/output error"}},
    {"read_only", {"Read-only file system"}},
    {"stale_mount", {"Stale file handle", "Transport endpoint is not connected"}},
    {"file_too_large", {"File too large"}},
    {"checkpoint_broken",
     {"PytorchStreamReader failed", "pickle data was truncated", "invalid load key",
      "Ran out of input", "UnpicklingError", "MetadataIncompleteBuffer"}},
    {"checkpoint_mismatch", {"Error(s) in loading state_dict", "size mismatch for"}},
    // --- libraries and interpreters -------------------------------------------------------------
    {"libc_too_old", {"GLIBC_", "GLIBCXX_", "CXXABI_"}, {"not found"}},
    {"library_missing", {"cannot open shared object file", "error while loading shared libraries"}},
    {"library_mismatch", {"undefined symbol", "symbol lookup error"}},
    {"python_module_missing", {"ModuleNotFoundError", "No module named"}},
    {"python_syntax", {"SyntaxError:", "IndentationError:", "TabError:"}},
    {"usage",
     {"error: unrecognized arguments", "error: the following arguments are required",
      "error: argument", "unrecognized option", "invalid option"}},
    // --- limits ---------------------------------------------------------------------------------
    {"too_many_files", {"Too many open files"}},
    {"too_many_processes",
     {"can't start new thread", "pthread_create failed", "fork: retry", "Cannot fork",
      "libgomp: Thread creation failed"}},
    {"too_many_processes", {"Resource temporarily unavailable"}, {"thread", "fork", "process"}},
    {"recursion", {"RecursionError", "maximum recursion depth"}},
    // --- the network itself ---------------------------------------------------------------------
    {"address_in_use", {"Address already in use", "EADDRINUSE"}},
    {"network_interface", {"Unable to find address for", "no socket interface found"}},
    {"name_unknown",
     {"Name or service not known", "Temporary failure in name resolution", "nodename nor servname",
      "No address associated with hostname"}},
    {"network_unreachable",
     {"No route to host", "Network is unreachable", "Connection timed out",
      "Cannot assign requested address"}},
    {"connection_refused", {"Connection refused"}},
    // --- the worker's own code ------------------------------------------------------------------
    {"dataloader_worker", {"DataLoader worker"}, {"exited unexpectedly", "is killed by signal"}},
    {"shapes_disagree",
     {"shapes cannot be multiplied", "must match the size of tensor", "Expected all tensors to be",
      "The size of tensor"}},
    {"assertion_failed", {"Assertion `", "AssertionError", "Assertion failed"}},
    {"interrupted", {"KeyboardInterrupt"}},
    {"command_missing", {": command not found", ": not found"}},
    {"file_missing", {"FileNotFoundError", "No such file or directory"}},
    {"permission_denied", {"PermissionError", "Permission denied", "Operation not permitted"}},
});

}  // namespace

std::span<const EndRule> end_rules() {
  return about_ends;
}

std::span<const WordRule> word_rules() {
  return about_words;
}

}  // namespace cpprun
