// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/io/spawn.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <system_error>

#include "proto/text.h"
#include "proto/worker_contract.h"
#include "worker/env/bounds.h"
#include "worker/env/io/blocked_signals.h"

namespace cpprun {

namespace {

Result<void> check(const SpawnPlan& plan, const Environment& own) {
  if (const auto rank = own.find(std::string(contract::rank)); rank != own.end()) {
    return failure(fmt::format(
        "cannot start workers: this process is already rank {} of a job; omit --spawn under cpprun "
        "or torchrun, or start the program without a launcher",
        rank->second));
  }
  const auto nodes = static_cast<int>(plan.workers_of_node.size());
  if (plan.node < 0 || plan.node >= nodes) {
    return failure(fmt::format("node index {} is out of range: the {} nodes are numbered 0 to {}",
                               plan.node, nodes, nodes - 1));
  }
  for (const int workers : plan.workers_of_node) {
    if (workers < 1)
      return failure(fmt::format("each node needs at least 1 worker, not {}", workers));
  }
  return {};
}

}  // namespace

Result<std::vector<Environment>> spawned_environments(const SpawnPlan& plan,
                                                      const Environment& own) {
  if (const auto checked = check(plan, own); !checked) return failure(checked.error().reason);
  const auto& workers = plan.workers_of_node;
  const auto here = workers.begin() + plan.node;
  const int base = std::accumulate(workers.begin(), here, 0);
  const int world = std::accumulate(workers.begin(), workers.end(), 0);
  std::vector<Environment> environments;
  for (int local_rank = 0; local_rank < *here; ++local_rank) {
    Environment variables = own;
    const auto put = [&variables](std::string_view name, const std::string& value) {
      variables[std::string(name)] = value;
    };
    put(contract::rank, std::to_string(base + local_rank));
    put(contract::local_rank, std::to_string(local_rank));
    put(contract::world_size, std::to_string(world));
    put(contract::local_world_size, std::to_string(*here));
    put(contract::group_rank, std::to_string(plan.node));
    put(contract::group_world_size, std::to_string(workers.size()));
    put(contract::master_addr, plan.master_address);
    put(contract::master_port, std::to_string(plan.master_port));
    environments.push_back(std::move(variables));
  }
  return environments;
}

namespace {

using Clock = std::chrono::steady_clock;

// For the child, while signals are blocked: before exec, it would run the parent's handlers.
// Ignored signals stay ignored, as exec keeps them.
void forget_signal_handlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    static_cast<void>(::sigaction(number, &action, nullptr));
  }
}

struct Child {
  pid_t pid = 0;
  int descriptor = -1;  // readable when the process has exited; -1 after that
};

// Null-terminated arguments and environment, as exec takes them. On failure returns a negative
// number and sets errno.
pid_t start_process(const ExecArray& words, const ExecArray& variables) {
  const pid_t parent = ::getpid();
  auto held = std::make_optional<BlockedSignals>();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  forget_signal_handlers();
  held.reset();
  // The parent may have died before this call.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(1);
  ::execve(words.get()[0], words.get(), variables.get());
  constexpr int not_executable = 126;
  ::_exit(not_executable);
}

// Owns the processes: its destructor stops those that still run.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    signal_all(SIGKILL);
    for (std::size_t index = 0; index < children_.size(); ++index) static_cast<void>(reap(index));
  }

  Result<void> start(std::vector<std::string> argv, const Environment& environment) {
    const ExecArray words(std::move(argv));
    const ExecArray variables(environment);
    const pid_t pid = start_process(words, variables);
    if (pid < 0) return failure(fmt::format("cannot start a process: {}", errno_text(errno)));
    const auto descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    const int error_number = errno;
    children_.push_back({pid, descriptor});
    if (descriptor < 0) {
      return failure(fmt::format("cannot watch process {}: {}", pid, errno_text(error_number)));
    }
    return {};
  }

  void signal_all(int number) {
    for (const Child& child : children_) {
      if (child.pid != 0) static_cast<void>(::kill(child.pid, number));
    }
  }

  bool all_gone() const {
    for (const Child& child : children_) {
      if (child.pid != 0) return false;
    }
    return true;
  }

  // Waits until a process exits, at most until `until`. Appends the exits, by local rank.
  void wait(std::optional<Clock::time_point> until, std::vector<SpawnedEnd>& ends) {
    std::vector<pollfd> polled;
    for (const Child& child : children_) polled.push_back({child.descriptor, POLLIN, 0});
    int timeout = -1;
    if (until) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now());
      timeout = static_cast<int>(std::max(left.count(), std::chrono::milliseconds::rep{0}));
    }
    if (::poll(polled.data(), polled.size(), timeout) <= 0) return;
    for (std::size_t index = 0; index < polled.size(); ++index) {
      if (polled[index].revents == 0) continue;
      ends.push_back({.exit_code = reap(index), .local_rank = static_cast<int>(index)});
    }
  }

 private:
  int reap(std::size_t index) {
    Child& child = children_[index];
    if (child.pid == 0) return 0;
    int status = 0;
    while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (child.descriptor >= 0) ::close(child.descriptor);
    child = {};
    constexpr int signal_base = 128;
    return WIFSIGNALED(status) ? signal_base + WTERMSIG(status) : WEXITSTATUS(status);
  }

  std::vector<Child> children_;
};

}  // namespace

Result<SpawnedEnd> spawn_workers(const std::vector<std::string>& argv,
                                 const std::vector<Environment>& environments) {
  Children children;
  for (const Environment& environment : environments) {
    if (auto started = children.start(argv, environment); !started) {
      return failure(started.error().reason);
    }
  }
  std::optional<SpawnedEnd> first_bad;
  std::optional<Clock::time_point> timeout_ends;
  while (!children.all_gone()) {
    std::vector<SpawnedEnd> ends;
    children.wait(timeout_ends, ends);
    for (const SpawnedEnd& end : ends) {
      if (end.exit_code == 0 || first_bad) continue;
      first_bad = end;
      children.signal_all(SIGTERM);
      timeout_ends = Clock::now() + bounds::worker_goodbye_wait_max;
    }
    if (timeout_ends && Clock::now() >= *timeout_ends) {
      children.signal_all(SIGKILL);
      timeout_ends.reset();
    }
  }
  return first_bad.value_or(SpawnedEnd{});
}

Result<std::string> own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return failure(fmt::format("cannot read /proc/self/exe: {}", error.message()));
  return path.string();
}

// Below the range of ephemeral ports: the kernel could give such a port to a client before rank 0
// listens.
Result<std::uint16_t> free_port() {
  constexpr std::uint16_t least = 20000;
  constexpr std::uint16_t most = 29999;
  constexpr int attempts_max = 100;
  std::random_device random;
  std::uniform_int_distribution<std::uint16_t> ports(least, most);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return failure(fmt::format("cannot create a socket: {}", errno_text(errno)));
  std::uint16_t found = 0;
  for (int attempt = 0; attempt < attempts_max && found == 0; ++attempt) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    const std::uint16_t port = ports(random);
    address.sin_port = htons(port);
    const auto* const plain = reinterpret_cast<const sockaddr*>(&address);
    if (::bind(socket, plain, sizeof address) == 0) found = port;
  }
  ::close(socket);
  if (found != 0) return found;
  return failure(
      fmt::format("no free port: tried {} ports from {} to {}; list the ports in use with ss -tln, "
                  "or set a port yourself",
                  attempts_max, least, most));
}

}  // namespace cpprun
