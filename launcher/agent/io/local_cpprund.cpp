// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/local_cpprund.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "launcher/plan/io/host.h"
#include "launcher/plan/meeting_place.h"
#include "launcher/report/console_messages.h"
#include "proto/signal_names.h"
#include "proto/text.h"
#include "rendezvous/daemon/io/store_daemon.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/status/io/door.h"

namespace cpprun::io {

namespace {

using Clock = std::chrono::steady_clock;

// Startup only needs a port. etcd is contacted later.
constexpr auto start_timeout = std::chrono::seconds(10);
// Maximum time to transfer leadership, and for an etcd that does not respond during shutdown.
constexpr std::chrono::seconds end_timeout(8);
// Time to exit after SIGKILL. A process that hangs in the kernel cannot be waited for.
constexpr std::chrono::seconds kill_timeout(2);
constexpr std::string_view listens = "cpprund listening on ";
// The same line, from the supervisor to cpprun.
constexpr std::string_view listens_at = "cpprund listening on :";

// A cpprund that exits is restarted after a pause that doubles, at most this many times in a row.
constexpr auto restart_pause = std::chrono::milliseconds(200);
constexpr auto restart_pause_max = std::chrono::milliseconds(10'000);
constexpr int restarts_max = 8;
constexpr auto restarts_forgotten = std::chrono::seconds(60);  // run time that resets the count

// These names keep a command that kills cpprun by name from killing these processes too.
constexpr const char* process_name = "job-rendezvous";
constexpr const char* supervisor_name = "job-supervisor";

// The address at which other nodes reach this node: its address on the route to etcd.
Result<std::string> own_address(const Config& config) {
  if (config.local_addr) return *config.local_addr;
  const auto addresses = addresses_of(config.endpoint.host);
  if (addresses.empty()) {
    return failure(
        fmt::format("--rdzv-endpoint: cannot resolve \"{}\", the name of an etcd member; use an IP "
                    "address, or add the name to /etc/hosts or DNS",
                    config.endpoint.host));
  }
  auto own = local_address_towards(addresses.front(), config.endpoint.port);
  if (!own) {
    return failure(fmt::format(
        "--rdzv-endpoint: the address of this node is unknown, because there is no route to etcd "
        "at {}: {}; use --local-addr",
        addresses.front(), own.error().reason));
  }
  return *own;
}

struct Pipe {
  FileDescriptor reads;
  FileDescriptor writes;
};
std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// The data fits into a pipe, and this process holds both ends: the write neither blocks nor fails.
void write_secrets(const Secrets& secrets, const FileDescriptor& pipe) {
  for (const Secret& secret : secrets) {
    std::string line = secret_line(secret) + "\n";
    (void)!::write(pipe.get(), line.data(), line.size());
    ::explicit_bzero(line.data(), line.size());
  }
}

tl::unexpected<Error> cannot_start(std::string_view without, std::string_view hint) {
  return failure(fmt::format("the rendezvous of this node cannot be started: {}: {} ({})", without,
                             errno_text(errno), hint));
}

// A forked process, and its standard output.
struct Child {
  pid_t pid = -1;
  FileDescriptor said;
};

// Forks a process that ends with this one. Keys are wiped in a forked child
// (rendezvous/io/secret_file.h), so they go through its standard input. `run` does not return.
Result<Child> begin_child(const char* name, const Secrets& secrets,
                          const std::function<void()>& run) {
  auto keys = make_pipe();
  auto said = make_pipe();
  if (!keys || !said) return cannot_start("no pipe", "check the limit of open files (ulimit -n)");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return cannot_start("no process",
                        "check the limit of processes (ulimit -u and the cgroup's pids.max)");
  }
  if (pid == 0) {
    (void)::prctl(PR_SET_NAME, name, 0, 0, 0);
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(1);
    (void)::dup2(keys->reads.get(), STDIN_FILENO);
    (void)::dup2(said->writes.get(), STDOUT_FILENO);
    close_from(STDERR_FILENO + 1);
    run();
    ::_exit(1);
  }
  write_secrets(secrets, keys->writes);
  return Child{pid, std::move(said->reads)};
}

// The main function of the cpprund process.
[[noreturn]] void live(DaemonOptions options, Environment environment) {
  if (!options.secrets_in_hand.empty()) {
    auto secrets = find_secrets("-", environment);
    if (!secrets) {
      fmt::print(stderr, "cpprun: error: the rendezvous of this node has no secret: {}\n",
                 secrets.error().reason);
      ::_exit(1);
    }
    options.secrets_in_hand = *std::move(secrets);
  }
  for (const char* const name : service_variables) environment.erase(name);
  lock_memory_and_priority();
  ::_exit(run_store_daemon(options, environment));
}

// The port in its first output line. None if it exits first or takes too long.
std::optional<int> port_said(int pipe) {
  const auto deadline = Clock::now() + start_timeout;
  std::string said;
  while (said.find('\n') == said.npos) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd readable{pipe, POLLIN, 0};
    if (left <= 0) return std::nullopt;
    if (::poll(&readable, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 256> bytes;
    const ssize_t got = ::read(pipe, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    said.append(bytes.data(), static_cast<std::size_t>(got));
  }
  const auto colon = said.rfind(':');
  if (!said.starts_with(listens) || colon == said.npos) return std::nullopt;
  return exact_number<int>(trimmed(std::string_view(said).substr(colon + 1)));
}

bool is_gone_within(std::chrono::seconds timeout, pid_t pid) {
  const auto deadline = Clock::now() + timeout;
  constexpr timespec glance{.tv_sec = 0, .tv_nsec = 2'000'000};
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) return false;
    (void)::nanosleep(&glance, nullptr);
  }
  return true;
}

std::string end_text(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  return fmt::format("was killed by {}", signal_name(WTERMSIG(status)));
}

// The parent of the cpprund. Starts it, and restarts it on the same port if it exits without being
// asked to. Small, without an event loop or threads, so that it can fork at any time.
class RendezvousSupervisor {
 public:
  RendezvousSupervisor(DaemonOptions options, Environment environment, ConsoleStyle style)
      : options_(std::move(options)), environment_(std::move(environment)), messages_(style) {}

  [[noreturn]] void live() {
    // Leave the process group: signals from a terminal are for cpprun, which stops this process
    // when it no longer needs it.
    (void)::setpgid(0, 0);
    (void)std::signal(SIGHUP, SIG_IGN);
    sigset_t waited;
    ::sigemptyset(&waited);
    for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) ::sigaddset(&waited, signal);
    ::sigprocmask(SIG_BLOCK, &waited, &mask_);
    if (!take_secrets() || !begin() || !tell_port()) ::_exit(1);
    ::_exit(watch(waited));
  }

 private:
  bool take_secrets() {
    if (options_.secrets_in_hand.empty()) return true;
    auto secrets = find_secrets("-", environment_);
    if (!secrets) {
      say(messages_.message(
          LogLevel::error, "the rendezvous of this node has no secret: " + secrets.error().reason));
      return false;
    }
    options_.secrets_in_hand = *std::move(secrets);
    return true;
  }

  bool begin() {
    started_ = Clock::now();
    auto child = begin_child(process_name, options_.secrets_in_hand, [this] {
      (void)::sigprocmask(SIG_SETMASK, &mask_, nullptr);
      io::live(std::move(options_), std::move(environment_));
    });
    if (!child) {
      say(messages_.message(LogLevel::warning, child.error().reason));
      return false;
    }
    pid_ = child->pid;
    said_ = std::move(child->said);
    return true;
  }

  bool tell_port() {
    const auto port = port_said(said_.get());
    if (!port) return false;
    options_.port = static_cast<std::uint16_t>(*port);
    const std::string line = fmt::format("{}{}\n", listens_at, *port);
    return ::write(STDOUT_FILENO, line.data(), line.size()) > 0;
  }

  // Runs until cpprun asks it to stop, or the cpprund has exited too often.
  int watch(const sigset_t& waited) {
    while (true) {
      const int signal = next_signal(waited, restart_at_);
      if (signal == SIGTERM || signal == SIGINT) return end(waited);
      int status = 0;
      while (pid_ > 0 && ::waitpid(pid_, &status, WNOHANG) == pid_) {
        if (!plan_restart(status)) return 1;
      }
      if (restart_at_ && Clock::now() >= *restart_at_) {
        restart_at_.reset();
        if (!begin() && !plan_restart(no_child)) return 1;
      }
    }
  }

  static int next_signal(const sigset_t& waited, std::optional<Clock::time_point> until) {
    using std::chrono::nanoseconds;
    if (!until) return ::sigwaitinfo(&waited, nullptr);
    const auto left = std::max<nanoseconds>(*until - Clock::now(), nanoseconds{0});
    const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
    const timespec time{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    return ::sigtimedwait(&waited, nullptr, &time);
  }

  bool plan_restart(int status) {
    const std::string what = status == no_child
                                 ? std::string("could not be started")
                                 : fmt::format("(pid {}) {}", pid_, end_text(status));
    pid_ = -1;
    if (Clock::now() - started_ > restarts_forgotten) restarts_ = 0;
    if (++restarts_ > restarts_max) {
      say(messages_.message(
          LogLevel::error,
          fmt::format(
              "the rendezvous process of this node {}, {} times in a row; giving up; the job "
              "continues while another node can host it\n"
              "  hint: fix the cause shown above, then restart cpprun on this node",
              what, restarts_)));
      return false;
    }
    const auto pause = std::min(restart_pause * (1 << (restarts_ - 1)), restart_pause_max);
    say(messages_.message(
        LogLevel::warning,
        fmt::format("the rendezvous process of this node {}; restarting it in {:.1f} s ({} of {})",
                    what, in_seconds(pause), restarts_, restarts_max)));
    restart_at_ = Clock::now() + pause;
    return true;
  }

  int end(const sigset_t& waited) {
    if (pid_ <= 0) return 0;
    (void)::kill(pid_, SIGTERM);
    const auto until = Clock::now() + end_timeout;
    while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
      // A second request stops it at once.
      const int signal = next_signal(waited, until);
      if (signal == SIGTERM || signal == SIGINT) (void)::kill(pid_, SIGTERM);
      if (Clock::now() < until) continue;
      (void)::kill(pid_, SIGKILL);
      (void)is_gone_within(kill_timeout, pid_);
      break;
    }
    return 0;
  }

  static void say(const std::string& line) {
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }

  static constexpr int no_child = -1;
  DaemonOptions options_;
  Environment environment_;
  ConsoleMessages messages_;
  sigset_t mask_{};  // the cpprund's signal mask
  pid_t pid_ = -1;   // of the running cpprund
  FileDescriptor said_;
  Clock::time_point started_{};
  int restarts_ = 0;  // in a row, after short runs
  std::optional<Clock::time_point> restart_at_;
};

}  // namespace

Result<LocalCpprund> LocalCpprund::start(const RunInputs& inputs) {
  const auto address = own_address(inputs.config);
  if (!address) return tl::unexpected(address.error());
  // Unique among the cpprunds of a job, on one machine or on several.
  const std::string name = fmt::format("{}-{}", inputs.host, inputs.node_token.substr(0, 6));
  DaemonOptions options = own_daemon_options(inputs.config, name, *address, inputs.secrets);
  // A lease below the default asks for a fast takeover, and accepts that an outage of etcd that is
  // longer than the leases costs a round.
  if (options.etcd_lease < bounds::election_ttl) {
    options.own_agent = {inputs.host, ::getpid(), inputs.agent_number};
  }
  options.door_directories = own_door_directories(inputs.environment, ::geteuid());
  const auto child = begin_child(supervisor_name, inputs.secrets, [&] {
    RendezvousSupervisor(std::move(options), inputs.environment, inputs.style).live();
  });
  if (!child) return tl::unexpected(child.error());
  LocalCpprund daemon(child->pid, {});
  const auto port = port_said(child->said.get());
  if (!port) return failure("the rendezvous of this node cannot be started: see its output above");
  daemon.place_ = {*address, *port};
  return daemon;
}

LocalCpprund::LocalCpprund(pid_t pid, Endpoint place)
    : pid_(pid),
      process_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
      place_(std::move(place)) {}

LocalCpprund::LocalCpprund(LocalCpprund&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      process_(std::move(other.process_)),
      place_(std::move(other.place_)) {}

LocalCpprund::~LocalCpprund() {
  end();
}

// Uses the pidfd: the process may have exited and been reaped, and its pid may have been reused.
void LocalCpprund::signal(int signal) const {
  if (process_) {
    (void)::syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0);
  } else {
    (void)::kill(pid_, signal);
  }
}

void LocalCpprund::end() {
  const pid_t pid = std::exchange(pid_, -1);
  if (pid < 0) return;
  signal(SIGTERM);
  if (is_gone_within(end_timeout + kill_timeout, pid)) return;
  signal(SIGKILL);
  (void)is_gone_within(kill_timeout, pid);
}

}  // namespace cpprun::io
