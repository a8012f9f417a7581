// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/store_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {
namespace {

// One store, open to every client that reaches the port.
class OpenHost : public StoreHost {
 public:
  explicit OpenHost(std::function<void(const std::string&)> log) : log_(std::move(log)) {}

  Result<void> admit(const PeerAddress& /*peer*/) override { return {}; }
  Store& store() override { return store_; }
  void adopt_link(FileDescriptor /*socket*/, PeerAddress peer,
                  std::string /*first_bytes*/) override {
    note({.ordinary = false,
          .peer = peer,
          .text = "closed: an agent of a job connected, and this port serves a plain store only"});
  }
  void note(Note note) override {
    if (note.ordinary || !log_) return;
    log_(note.peer ? note.peer->text() + " " + note.text : note.text);
  }

 private:
  Store store_;
  std::function<void(const std::string&)> log_;
};

MemoryLimits memory_for(const StoreServerOptions& options) {
  if (options.memory_bytes_max != 0) return {.bytes_max = options.memory_bytes_max};
  return memory_of_this_machine();
}

}  // namespace

// --- in the caller's loop ----------------------------------------------------------------------

StoreService::StoreService(const StoreServerOptions& options)
    : host_(std::make_unique<OpenHost>(options.log)),
      connections_({.memory = memory_for(options)}) {}

StoreService::~StoreService() {
  // A fork of the owner shares its sockets, so it only closes its own descriptors.
  if (is_of_this_process()) connections_.shut_down();
}

Result<std::unique_ptr<StoreService>> StoreService::open(const StoreServerOptions& options) {
  std::unique_ptr<StoreService> service(new StoreService(options));
  Result<Listening> listening =
      service->connections_.listen(*service->host_, {.host = options.host, .port = options.port});
  if (!listening) return tl::unexpected<Error>(listening.error());
  service->listening_ = std::move(*listening);
  return service;
}

bool StoreService::is_of_this_process() const {
  return owner_ == ::getpid();
}

int StoreService::next_wait_ms() const {
  if (has_more_) return 0;
  const std::optional<TimePoint> deadline = connections_.next_deadline();
  if (!deadline) return -1;
  const Duration left = *deadline - std::chrono::steady_clock::now();
  // Rounded up, so that the deadline has passed when the wait is over.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
}

void StoreService::serve() {
  if (!is_of_this_process()) return;  // The owner would miss what is taken here.
  has_more_ = connections_.serve(std::chrono::steady_clock::now());
}

// --- in a thread of its own --------------------------------------------------------------------

class StoreServer::Impl {
 public:
  Impl(std::unique_ptr<StoreService> service, FileDescriptor stop)
      : service_(std::move(service)), stop_(std::move(stop)) {
    // The embedding program handles signals, in its own threads. A new thread inherits the signal
    // mask of its creator.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { run(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~Impl() {
    const std::uint64_t one = 1;
    // No other code writes this eventfd, so this cannot fail.
    (void)!::write(stop_.get(), &one, sizeof one);
    thread_.join();
  }

  const StoreService& service() const { return *service_; }
  bool is_of_this_process() const { return owner_ == ::getpid(); }

 private:
  void run() {
    std::array<pollfd, 2> watched{pollfd{service_->descriptor(), POLLIN, 0},
                                  pollfd{stop_.get(), POLLIN, 0}};
    while (watched[1].revents == 0) {
      service_->serve();
      if (poll(watched.data(), watched.size(), service_->next_wait_ms()) < 0) {
        watched[1].revents = 0;  // interrupted by a signal; the events are not valid
      }
    }
  }

  std::unique_ptr<StoreService> service_;
  FileDescriptor stop_;
  const pid_t owner_ = ::getpid();
  std::thread thread_;
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() {
  // A fork of the owner does not have the thread, shares its descriptors, and has a copy of the
  // store in an arbitrary state. All of that is left as it is.
  if (impl_ != nullptr && !impl_->is_of_this_process()) (void)impl_.release();
}

Result<std::unique_ptr<StoreServer>> StoreServer::open(const StoreServerOptions& options) {
  Result<std::unique_ptr<StoreService>> service = StoreService::open(options);
  if (!service) return tl::unexpected<Error>(service.error());
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC));
  if (!stop) return failure("cannot start a store server: " + errno_text(errno));
  return std::unique_ptr<StoreServer>(
      new StoreServer(std::make_unique<Impl>(std::move(*service), std::move(stop))));
}

StoreServer::StoreServer(const StoreServerOptions& options) {
  Result<std::unique_ptr<StoreServer>> server = open(options);
  if (!server) throw std::runtime_error(server.error().reason);
  impl_ = std::move((*server)->impl_);
}

std::uint16_t StoreServer::port() const {
  return impl_->service().port();
}
std::string StoreServer::address() const {
  return impl_->service().address();
}

}  // namespace cpprun
