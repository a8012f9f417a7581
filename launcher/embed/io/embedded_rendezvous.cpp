// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/io/embedded_rendezvous.h"

#include <signal.h>
#include <unistd.h>
#include <asio/io_context.hpp>

#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "proto/clock.h"
#include "proto/text.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/daemon/io/owner_access.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/secret_file.h"
#include "rendezvous/status/status_json.h"

namespace cpprun::io {

class EmbeddedRendezvous::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        events_(machine_name()),
        server_(std::make_unique<CoordinatorServer>(
            context_, callbacks(), ConnectionLimits{.memory = memory_of(options_)})),
        access_(*server_) {}

  Result<void> open() {
    if (!options_.secrets.empty()) {
      auto secrets = parse_secrets(options_.secrets, make_key_memory);
      if (!secrets) return failure("the secret " + secrets.error().reason);
      auto taken = access_.take({{.name = std::string(only_owner_name), .secrets = *secrets}});
      if (!taken) return taken;
    }
    const auto listening =
        server_->open({.host = options_.host, .port = options_.port},
                      {.only = {},
                       .options = {.lease = bounds::daemon_lease,
                                   .status_interval = bounds::status_interval,
                                   .last_call = bounds::daemon_last_call},
                       .limits = {.jobs = options_.jobs_max}},
                      PlainStore::refused, {.access = options_.status, .names = {options_.host}});
    if (!listening) return tl::unexpected<Error>(listening.error());
    port_ = listening->port;
    address_ = listening->address;
    return {};
  }

  // The signals of the process are for its own threads.
  void start(const std::shared_ptr<Impl>& self) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([self] { self->serve(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void stop() {
    context_.stop();
    if (thread_.get_id() == std::this_thread::get_id()) return thread_.detach();
    if (thread_.joinable()) thread_.join();
  }

  bool is_own() const { return ::getpid() == pid_; }
  std::uint16_t port() const { return port_; }
  const std::string& address() const { return address_; }

 private:
  void serve() {
    try {
      context_.run();
    } catch (const std::exception& error) {
      log({.text = std::string("the rendezvous ends: ") + error.what(), .level = LogLevel::error});
    }
    server_.reset();
  }

  static MemoryLimits memory_of(const Options& options) {
    MemoryLimits limits = memory_of_this_machine();
    if (options.memory_bytes_max != 0) {
      limits.bytes_max = options.memory_bytes_max;
      limits.address_bytes_max = options.memory_bytes_max;
    }
    return limits;
  }

  CoordinatorServer::Callbacks callbacks() {
    return {.to_local_agent = [](const link::Message&) {},
            .note = [this](const Note& note) { log(note); },
            .done = nullptr,
            .event_of =
                [this](const std::string& job, const coordinator::Action& action) {
                  auto line = events_.line(wall_now(), job, action);
                  if (line) tell(*line);
                  return line;
                }};
  }

  void log(const Note& note) const {
    if (!options_.log) return;
    const std::string text = note.peer ? note.peer->text() + " " + note.text : note.text;
    options_.log(note.ordinary ? LogLevel::debug : note.level,
                 plain_line(text, bounds::log_line_bytes_max));
  }

  void tell(std::string_view line) const {
    if (!options_.event) return;
    if (const auto event = read_job_event(line)) options_.event(*event);
  }

  const Options options_;
  const pid_t pid_ = ::getpid();
  asio::io_context context_{1};
  JobEvents events_;
  std::unique_ptr<CoordinatorServer> server_;  // destroyed in the serving thread
  OwnerAccess access_;
  std::uint16_t port_ = 0;
  std::string address_;
  std::thread thread_;
};

Result<std::unique_ptr<EmbeddedRendezvous>> EmbeddedRendezvous::open(Options options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  if (auto opened = impl->open(); !opened) return tl::unexpected<Error>(opened.error());
  impl->start(impl);
  return std::unique_ptr<EmbeddedRendezvous>(new EmbeddedRendezvous(std::move(impl)));
}

EmbeddedRendezvous::EmbeddedRendezvous(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

EmbeddedRendezvous::~EmbeddedRendezvous() {
  if (impl_->is_own()) {
    impl_->stop();
  } else {
    // There is no thread in the child; what it used may be half changed.
    static_cast<void>(new std::shared_ptr<Impl>(std::move(impl_)));
  }
}

std::uint16_t EmbeddedRendezvous::port() const {
  return impl_->port();
}
const std::string& EmbeddedRendezvous::address() const {
  return impl_->address();
}

}  // namespace cpprun::io
