// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/embed/io/embedded_rendezvous.h"

#include <pthread.h>
#include <asio/io_context.hpp>

#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "proto/clock.h"
#include "proto/text.h"
#include "rendezvous/coordinator/io/coordinator_server.h"
#include "rendezvous/daemon/bounds.h"
#include "rendezvous/daemon/daemon_options.h"
#include "rendezvous/daemon/io/owner_access.h"
#include "rendezvous/daemon/io/store_daemon.h"
#include "rendezvous/io/owner_process.h"
#include "rendezvous/io/program.h"
#include "rendezvous/io/quiet_thread.h"
#include "rendezvous/status/status_json.h"

namespace cpprun::io {

class EmbeddedRendezvous::Impl {
 public:
  explicit Impl(Options options)
      : options_(std::move(options)),
        events_(machine_name()),
        server_(std::make_unique<CoordinatorServer>(
            context_, callbacks(),
            ConnectionLimits{
                .memory = memory_of(DaemonOptions{.memory_bytes_max = options_.memory_bytes_max}),
                .shares_process = true})),
        access_(*server_) {}

  StoreResult<void> open() {
    if (!options_.secrets.empty()) {
      auto taken =
          access_.take({{.name = std::string(only_owner_name), .secrets = options_.secrets}});
      if (!taken) return failure(StoreErrorCode::unsupported, taken.error().reason);
    }
    const auto listening =
        server_->open({.host = options_.host, .port = options_.port},
                      {.only = {},
                       .options = {.lease = bounds::daemon_lease,
                                   .status_interval = bounds::status_interval,
                                   .last_call = bounds::daemon_last_call},
                       .limits = {.jobs = options_.jobs_max}},
                      PlainStore::refused, {.access = options_.status, .names = {options_.host}});
    if (!listening) return failure(StoreErrorCode::system, listening.error().reason);
    port_ = listening->port;
    address_ = listening->address;
    return {};
  }

  StoreResult<void> start(const std::shared_ptr<Impl>& self) {
    const int error = start_quiet_thread([self] { self->serve(); }, &thread_);
    if (error == 0) return {};
    return failure(StoreErrorCode::system, "cannot create a thread: " + errno_text(error));
  }

  void stop() {
    context_.stop();
    if (::pthread_equal(thread_, ::pthread_self()) == 0) {
      ::pthread_join(thread_, nullptr);
    } else {
      is_closed_ = true;
      ::pthread_detach(thread_);
    }
  }

  bool is_own() const { return owner_.is_this(); }
  std::uint16_t port() const { return port_; }
  const std::string& address() const { return address_; }

 private:
  void serve() {
    try {
      context_.run();
    } catch (const std::exception& error) {  // out of memory: cpprund would exit
      log({.text = std::string("the rendezvous stopped: ") + error.what(),
           .level = LogLevel::error});
    }
    server_->shut_down();
    server_.reset();
  }

  CoordinatorServer::Callbacks callbacks() {
    CoordinatorServer::Callbacks callbacks{.to_local_agent = [](const link::Message&) {},
                                           .note = [this](const Note& note) { log(note); },
                                           .done = nullptr};
    if (options_.event || options_.status != StatusAccess::none) {
      callbacks.event_of = [this](const std::string& job, const coordinator::Action& action) {
        auto line = events_.line(wall_now(), job, action);
        if (line) tell(*line);
        return line;
      };
    }
    return callbacks;
  }

  void log(const Note& note) const {
    if (!options_.log || is_closed_) return;
    const std::string text = note.peer ? note.peer->text() + " " + note.text : note.text;
    options_.log(note.ordinary ? LogLevel::debug : note.level,
                 plain_line(text, bounds::log_line_bytes_max));
  }

  void tell(std::string_view line) const {
    if (!options_.event || is_closed_) return;
    if (const auto event = read_job_event(line)) options_.event(*event);
  }

  const Options options_;
  const OwnerProcess owner_;
  bool is_closed_ = false;  // in a callback: no further one comes
  asio::io_context context_{1};
  JobEvents events_;
  std::unique_ptr<CoordinatorServer> server_;  // destroyed in the serving thread
  OwnerAccess access_;
  std::uint16_t port_ = 0;
  std::string address_;
  pthread_t thread_{};
};

StoreResult<std::unique_ptr<EmbeddedRendezvous>> EmbeddedRendezvous::open(Options options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  if (auto opened = impl->open(); !opened) return tl::unexpected(opened.error());
  if (auto started = impl->start(impl); !started) return tl::unexpected(started.error());
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
