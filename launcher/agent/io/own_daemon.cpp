// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/own_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "launcher/plan/etcd_meeting.h"
#include "launcher/plan/io/addresses.h"
#include "launcher/plan/io/host.h"
#include "proto/text.h"
#include "rendezvous/daemon/activation.h"
#include "rendezvous/daemon/io/store_daemon.h"
#include "rendezvous/io/close_from.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/io/steadiness.h"
#include "rendezvous/status/io/door.h"

namespace cpprun::io {

namespace {

using Clock = std::chrono::steady_clock;

// It asks for nothing but a port, and etcd is asked when it is there.
constexpr auto start_patience = std::chrono::seconds(10);
// What handing over takes at most, and what an etcd that answers nothing is given on the way out.
constexpr auto end_patience = std::chrono::seconds(8);
// For it to be gone after SIGKILL. One that hangs in the kernel cannot be waited for.
constexpr auto kill_patience = std::chrono::seconds(2);
constexpr std::string_view listens = "cpprund listening on ";

// Whoever ends cpprun by its name must not end this one with it.
constexpr const char* process_name = "job-rendezvous";

// From where the others reach this node: from where it reaches etcd.
Result<std::string> own_address(const Config& config) {
  if (config.local_addr) return *config.local_addr;
  const auto addresses = addresses_of(config.endpoint.host);
  if (addresses.empty()) {
    return failure(fmt::format("--rdzv-endpoint: the name \"{}\" of etcd does not resolve here",
                               config.endpoint.host));
  }
  auto own = local_address_towards(addresses.front(), config.endpoint.port);
  if (!own) {
    return failure(
        fmt::format("--rdzv-endpoint: no way leads to etcd at {}: {}; --local-addr says "
                    "where this node is met",
                    addresses.front(), own.error().reason));
  }
  return *own;
}

// Keys are wiped in a fork (proto/secure/io/key_memory.h): they come through its standard input.
struct Pipe {
  FileDescriptor reads;
  FileDescriptor writes;
};
std::optional<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

// Less than a pipe takes, and this process has both of its ends: it neither waits nor fails.
void pass_on(const Secrets& secrets, const FileDescriptor& pipe) {
  for (const Secret& secret : secrets) {
    std::string line = secret_line(secret) + "\n";
    (void)!::write(pipe.get(), line.data(), line.size());
    ::explicit_bzero(line.data(), line.size());
  }
}

// The child's life.
[[noreturn]] void live(DaemonOptions options, Environment environment, int input, int output,
                       pid_t parent) {
  (void)::prctl(PR_SET_NAME, process_name, 0, 0, 0);
  (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  // What a terminal sends is for cpprun, which ends this one when it has no more use for it.
  (void)::setpgid(0, 0);
  (void)std::signal(SIGHUP, SIG_IGN);
  (void)::dup2(input, STDIN_FILENO);
  (void)::dup2(output, STDOUT_FILENO);
  close_from(STDERR_FILENO + 1);
  if (!options.secrets_in_hand.empty()) {
    auto secrets = find_secrets("-", environment);
    if (!secrets) {
      fmt::print(stderr, "cpprun: the rendezvous of this node has no secret: {}\n",
                 secrets.error().reason);
      ::_exit(1);
    }
    options.secrets_in_hand = *std::move(secrets);
  }
  for (const char* const name : service_variables) environment.erase(name);
  hold_steady();
  ::_exit(run_store_daemon(options, environment));
}

// What it says on its first line; nothing where it ends before, or takes too long.
std::optional<int> port_said(int pipe) {
  const auto deadline = Clock::now() + start_patience;
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

tl::unexpected<Error> cannot_start(std::string_view without, std::string_view cure) {
  return failure(fmt::format("the rendezvous of this node cannot be started: {}: {} ({})", without,
                             errno_text(errno), cure));
}

bool is_gone_within(std::chrono::seconds patience, pid_t pid) {
  const auto deadline = Clock::now() + patience;
  constexpr timespec glance{.tv_sec = 0, .tv_nsec = 2'000'000};
  while (::waitpid(pid, nullptr, WNOHANG) == 0) {
    if (Clock::now() > deadline) return false;
    (void)::nanosleep(&glance, nullptr);
  }
  return true;
}

}  // namespace

Result<OwnDaemon> OwnDaemon::start(const RunInputs& inputs) {
  const auto address = own_address(inputs.config);
  if (!address) return tl::unexpected(address.error());
  // No two of a job are called alike, on one machine or on two.
  const std::string name = fmt::format("{}-{}", inputs.host, inputs.node_token.substr(0, 6));
  DaemonOptions options = own_daemon_options(inputs.config, name, *address, inputs.secrets);
  options.door_folders = own_door_folders(inputs.environment, ::geteuid());
  auto keys = make_pipe();
  auto said = make_pipe();
  if (!keys || !said) return cannot_start("no pipe", "ulimit -n says how many files may be open");
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) {
    return cannot_start("no process",
                        "ulimit -u and the cgroup's pids.max say how many there may be");
  }
  if (pid == 0) {
    live(std::move(options), inputs.environment, keys->reads.get(), said->writes.get(), parent);
  }
  said->writes.reset();
  pass_on(inputs.secrets, keys->writes);
  keys.reset();
  OwnDaemon daemon(pid, {});
  const auto port = port_said(said->reads.get());
  if (!port) return failure("the rendezvous of this node cannot be started: what it says is above");
  daemon.place_ = {*address, *port};
  return daemon;
}

OwnDaemon::OwnDaemon(OwnDaemon&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), place_(std::move(other.place_)) {}

OwnDaemon::~OwnDaemon() {
  end();
}

void OwnDaemon::end() {
  const pid_t pid = std::exchange(pid_, -1);
  if (pid < 0) return;
  (void)::kill(pid, SIGTERM);
  if (is_gone_within(end_patience, pid)) return;
  (void)::kill(pid, SIGKILL);
  (void)is_gone_within(kill_patience, pid);
}

}  // namespace cpprun::io
