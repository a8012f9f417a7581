// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/io/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <string>
#include <vector>

#include "rendezvous/io/bare_child.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun::io {

namespace {

// All the child needs, prepared before the clone. It must not allocate, because its heap is ours.
struct ChildPlan {
  const char* path = nullptr;
  char* const* argv = nullptr;
  char* const* variables = nullptr;
  const StreamPlan* out_plan = nullptr;
  const StreamPlan* err_plan = nullptr;
  int out = -1;
  int err = -1;
  const rlimit* open_files = nullptr;
  const rlimit* mark = nullptr;
  const int* niceness = nullptr;
  bool is_traceable = false;
  const int* signals = nullptr;  // to be reset to their defaults
  std::size_t signal_count = 0;
  const cpu_set_t* cpus = nullptr;  // nullptr: cpprun's own set
  std::size_t cpus_bytes = 0;
  pid_t parent = 0;
  // Written by the child. Read by us once it has executed its program or exited.
  SpawnStage stage = SpawnStage::session;
  int error_number = 0;
};

CPPRUN_BARE int open_target(const StreamPlan& plan) {
  if (plan.target == StreamTarget::nowhere) return ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  return ::open(plan.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
}

// Replaces a standard stream as the plan says. Does nothing for an inherited console.
CPPRUN_BARE bool place(const StreamPlan& plan, int given, int standard) {
  if (given >= 0) return ::dup2(given, standard) >= 0;
  if (plan.target != StreamTarget::nowhere && plan.target != StreamTarget::file) return true;
  const int opened = open_target(plan);
  return opened >= 0 && ::dup2(opened, standard) >= 0;
}

// Workers must not inherit our signal handling.
CPPRUN_BARE void reset_signals(const ChildPlan& plan) {
  for (std::size_t at = 0; at < plan.signal_count; ++at) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    ::sigaction(plan.signals[at], &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

CPPRUN_BARE void take_steps(ChildPlan& plan) {
  plan.stage = SpawnStage::session;
  if (::setsid() < 0) return;
  plan.stage = SpawnStage::death_signal;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) return;
  // We may have been killed before the line above; then the signal would never come.
  if (::getppid() != plan.parent) ::_exit(127);
  plan.stage = SpawnStage::processors;
  if (plan.cpus != nullptr && ::sched_setaffinity(0, plan.cpus_bytes, plan.cpus) != 0) return;
  plan.stage = SpawnStage::stdout_target;
  if (!place(*plan.out_plan, plan.out, STDOUT_FILENO)) return;
  plan.stage = SpawnStage::stderr_target;
  if (!place(*plan.err_plan, plan.err, STDERR_FILENO)) return;
  // Close everything else cpprun was started with: a worker must not hold unrelated descriptors.
  close_from(STDERR_FILENO + 1);
  // Restores the previous limit, which needs no privilege.
  if (plan.open_files != nullptr) ::setrlimit(RLIMIT_NOFILE, plan.open_files);
  if (plan.mark != nullptr) ::setrlimit(RLIMIT_RTTIME, plan.mark);
  if (plan.niceness != nullptr) ::setpriority(PRIO_PROCESS, 0, *plan.niceness);
  // Survives exec, and is not inherited. Fails in a kernel without Yama, where it is not needed.
  if (plan.is_traceable) ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(plan.parent), 0, 0, 0);
  plan.stage = SpawnStage::exec;
  reset_signals(plan);
  ::execve(plan.path, plan.argv, plan.variables);
}

CPPRUN_BARE int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  take_steps(plan);
  plan.error_number = errno;
  ::_exit(127);
}

// The CPU set in the kernel's format, as long as needed.
std::vector<cpu_set_t> cpu_mask_of(const CpuSet& cpus) {
  if (cpus.empty()) return {};
  std::vector<cpu_set_t> mask(static_cast<std::size_t>(*cpus.rbegin() / CPU_SETSIZE + 1));
  for (const int cpu : cpus) {
    CPU_SET_S(static_cast<std::size_t>(cpu), mask.size() * sizeof(cpu_set_t), mask.data());
  }
  return mask;
}

}  // namespace

// Only a SIGHUP that was ignored at our start (nohup) stays ignored.
std::vector<int> changed_signals() {
  std::vector<int> changed;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    const bool is_ignored = action.sa_handler == SIG_IGN;
    if (action.sa_handler == SIG_DFL || (is_ignored && signal == SIGHUP)) continue;
    changed.push_back(signal);
  }
  return changed;
}

tl::expected<Child, SpawnError> spawn_process(const WorkerSpec& spec, int out, int err,
                                              const WorkerLimits& limits) {
  const ExecArray argv(spec.argv);
  const ExecArray variables(limits.inherited, spec.variables);

  ChildPlan plan;
  plan.path = spec.argv.front().c_str();
  plan.argv = argv.get();
  plan.variables = variables.get();
  plan.out_plan = &spec.out;
  plan.err_plan = &spec.err;
  plan.out = out;
  plan.err = err;
  plan.open_files = limits.open_files ? &*limits.open_files : nullptr;
  rlimit mark{};
  if (limits.mark && ::getrlimit(RLIMIT_RTTIME, &mark) == 0) {
    mark.rlim_cur = limits.mark->value;
    plan.mark = &mark;
  }
  plan.niceness = limits.niceness ? &*limits.niceness : nullptr;
  plan.is_traceable = limits.is_traceable;
  plan.signals = limits.signals.data();
  plan.signal_count = limits.signals.size();
  const auto mask = cpu_mask_of(spec.cpus);
  plan.cpus = mask.empty() ? nullptr : mask.data();
  plan.cpus_bytes = mask.size() * sizeof(cpu_set_t);
  plan.parent = ::getpid();

  const BareChild started = start_bare_child(child_main, &plan);
  if (started.pid < 0) return tl::unexpected(SpawnError{SpawnStage::clone, started.error});
  if (plan.error_number == 0) return Child{.pid = started.pid, .pidfd = started.pidfd};

  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(started.pid), &info, WEXITED);
  if (started.pidfd >= 0) ::close(started.pidfd);
  return tl::unexpected(SpawnError{plan.stage, plan.error_number});
}

}  // namespace cpprun::io
