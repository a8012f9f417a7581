// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/io/election_driver.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "proto/text.h"
#include "rendezvous/etcd/bounds.h"
#include "rendezvous/etcd/io/etcd_client.h"
#include "rendezvous/etcd/leader_lease.h"
#include "rendezvous/io/event_loop.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

namespace {

using namespace std::chrono_literals;

constexpr const char* process_name = "etcd-lease";
constexpr Duration restart_pause = 1s;
constexpr Duration restart_pause_max = 60s;
// A message is "EPOCH SYNCED", with at most election_synced_max names.
constexpr std::size_t message_bytes_max = std::size_t{64} * 1024;
const std::string nothing_left = "0 ";

std::string message_of(const election::Will& will) {
  return fmt::format("{} {}", will.epoch, will.synced);
}

std::optional<election::Will> will_of(std::string_view message) {
  const auto blank = message.find(' ');
  if (blank == message.npos) return std::nullopt;
  const auto epoch = exact_number<etcd::Revision>(message.substr(0, blank));
  if (!epoch || *epoch == 0) return std::nullopt;
  return election::Will{*epoch, std::string(message.substr(blank + 1))};
}

// Asks one member after the other until one has decided, or the lease has expired.
class Resignation {
 public:
  Resignation(const LeaseGuard::Options& options, const election::Will& will)
      : request_(resignation(options.keys, will.epoch, will.synced)),
        members_(options.access.endpoints.size()),
        timeout_(bounds::etcd_timeout(options.lease)),
        until_(boot_now() + options.lease),
        client_(context_, options.access, options.tls),
        timer_(context_) {}

  void play() {
    ask();
    context_.run();
  }

 private:
  void ask() {
    client_.ask(election::Lane::writes, next_ % members_, request_, timeout_,
                [this](const etcd::Heard& heard) {
                  if (heard || boot_now() >= until_) return context_.stop();
                  const bool has_asked_all = ++next_ % members_ == 0;
                  timer_.expires_after(has_asked_all ? bounds::etcd_round_pause : 0ns);
                  timer_.async_wait([this](const asio::error_code&) { ask(); });
                });
  }

  asio::io_context context_{1};
  const etcd::Request request_;
  const std::size_t members_;
  const Duration timeout_;
  const TimePoint until_;
  EtcdClient client_;
  asio::steady_timer timer_;
  std::size_t next_ = 0;
};

// The child process: only the last message counts.
void guard(int pipe, const LeaseGuard::Options& options) {
  (void)::prctl(PR_SET_NAME, process_name, 0, 0, 0);
  std::optional<election::Will> will;
  std::string message(message_bytes_max, '\0');
  while (true) {
    const ssize_t got = ::recv(pipe, message.data(), message.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    will = will_of(std::string_view(message).substr(0, static_cast<std::size_t>(got)));
  }
  if (will) Resignation(options, *will).play();
}

}  // namespace

LeaseGuard::LeaseGuard(asio::io_context& context, HelperProcesses& side, Options options, Say say)
    : side_(side),
      options_(std::move(options)),
      say_(std::move(say)),
      pipe_(context),
      timer_(context) {
  start();
}

LeaseGuard::~LeaseGuard() {
  if (pipe_.is_open()) send(nothing_left);
}

void LeaseGuard::keep(const election::Will& will) {
  will_ = message_of(will);
  if (pipe_.is_open()) send(will_);
}

void LeaseGuard::start() {
  started_ = boot_now();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ended("cannot create a socket: " + errno_text(errno));
  }
  FileDescriptor mine(ends[0]);
  const FileDescriptor theirs(ends[1]);
  const auto pid = side_.start({theirs.get()}, [&] { guard(theirs.get(), options_); });
  if (!pid) return ended(pid.error().reason);
  pid_ = *pid;
  pipe_.assign(mine.release());
  if (!will_.empty()) send(will_);
  watch();
}

// A child that reads nothing is suspended and holds outdated data, so it is killed.
void LeaseGuard::send(const std::string& message) {
  const ssize_t sent =
      ::send(pipe_.native_handle(), message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) side_.end(pid_);
}

void LeaseGuard::watch() {
  pipe_.async_wait(asio::posix::stream_descriptor::wait_read,
                   [this](const asio::error_code& cancelled) {
                     if (!cancelled) ended(fmt::format("process {} exited", pid_));
                   });
}

void LeaseGuard::ended(const std::string& why) {
  asio::error_code ignored;  // there may be nothing to close
  pipe_.close(ignored);
  const bool was_short = boot_now() - started_ < restart_pause_max;
  pause_ = was_short ? std::clamp(2 * pause_, restart_pause, restart_pause_max) : restart_pause;
  say_(LogLevel::warning,
       fmt::format("the lease guard is not running: {}; restarting it in {:.1f} s (until then, a "
                   "killed leader is replaced when its lease ends, not at once)",
                   why, in_seconds(pause_)));
  timer_.expires_after(pause_);
  timer_.async_wait([this](const asio::error_code& cancelled) {
    if (!cancelled) start();
  });
}

ElectionDriver::ElectionDriver(asio::io_context& context, ElectionOptions options,
                               const EtcdAccess& access, std::shared_ptr<SecureContext> tls,
                               Told told, std::unique_ptr<LeaseGuard> guard)
    : told_(std::move(told)),
      guard_(std::move(guard)),
      client_(context, access, std::move(tls)),
      timer_(context, [this] { driver_.advance(); }),
      driver_({.now = boot_now,
               .perform = [this](const election::Action& action) { perform(action); },
               .arm = [this](std::optional<TimePoint> at) { timer_.arm(at); }}) {
  options.endpoints = access.endpoints;
  driver_.begin(LeaderElection(std::move(options)));
}

void ElectionDriver::start() {
  driver_.start([](LeaderElection& election, TimePoint now) { return election.advance(now); });
}

void ElectionDriver::perform(const election::Action& action) {
  if (const auto* const will = std::get_if<election::Will>(&action)) {
    if (guard_ != nullptr) guard_->keep(*will);
    return;
  }
  const auto* const ask = std::get_if<election::Ask>(&action);
  if (ask == nullptr) return told_(action);
  client_.ask(ask->lane, ask->endpoint, ask->request, ask->timeout,
              [this, id = ask->id](etcd::Heard heard) {
                driver_.post(election::Answered{id, std::move(heard)});
              });
}

}  // namespace cpprun
