// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/store_server.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/quiet_thread.h"

namespace cpprun {

// --- in the caller's loop ----------------------------------------------------------------------

StoreResult<std::unique_ptr<StoreService>> StoreService::open(const StoreServerOptions& options) {
  auto store = OpenStore::open(options);
  if (!store) return tl::unexpected(std::move(store.error()));
  return std::unique_ptr<StoreService>(new StoreService(std::move(*store)));
}

StoreService::~StoreService() {
  store_->close();
}

// --- in a thread of its own --------------------------------------------------------------------

class StoreServer::Impl {
 public:
  Impl(std::shared_ptr<OpenStore> store, FileDescriptor stop)
      : store_(std::move(store)), stop_(std::move(stop)) {}

  // An errno, or 0.
  int start() {
    return start_quiet_thread([this] { run(); }, &thread_);
  }

  // The server is gone. Deletes itself, in a callback once that has returned.
  static void end(std::unique_ptr<Impl> impl) {
    if (!impl->owner_.is_this()) return impl->store_->let_go_in_fork();
    const pthread_t thread = impl->thread_;
    const bool is_callback =
        pthread_equal(thread, pthread_self()) != 0 || impl->store_->is_admitting_here();
    impl->store_->close();
    const std::uint64_t one = 1;
    // No other code writes this eventfd, so this cannot fail.
    (void)!::write(impl->stop_.get(), &one, sizeof one);
    if (is_callback) {
      pthread_detach(thread);
      Impl* const own_owner = impl.release();
      own_owner->is_own_owner_ = true;
      own_owner->is_stopping_ = true;  // it may be gone after this
      return;
    }
    impl->is_stopping_ = true;
    pthread_join(thread, nullptr);
  }

  OpenStore& store() const { return *store_; }

 private:
  void run() {
    std::array<pollfd, 2> watched{pollfd{store_->descriptor(), POLLIN, 0},
                                  pollfd{stop_.get(), POLLIN, 0}};
    while (!is_stopping_) {
      store_->serve();
      if (is_stopping_) break;
      // After an error, for instance a signal, the store is served once more than necessary.
      (void)poll(watched.data(), watched.size(), store_->next_wait_ms());
    }
    store_->close();
    if (is_own_owner_) delete this;
  }

  const std::shared_ptr<OpenStore> store_;
  const FileDescriptor stop_;
  const OwnerProcess owner_;
  pthread_t thread_{};
  std::atomic<bool> is_stopping_ = false;
  bool is_own_owner_ = false;  // written before is_stopping_, read after it
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

StoreServer::~StoreServer() {
  if (impl_ != nullptr) Impl::end(std::move(impl_));
}

StoreResult<std::unique_ptr<StoreServer>> StoreServer::open(const StoreServerOptions& options) {
  auto store = OpenStore::open(options);
  if (!store) return tl::unexpected(std::move(store.error()));
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC));
  int error = stop ? 0 : errno;
  std::unique_ptr<Impl> impl;
  if (error == 0) {
    impl = std::make_unique<Impl>(std::move(*store), std::move(stop));
    error = impl->start();
  }
  if (error != 0) {
    return failure(StoreErrorCode::system, "cannot start a store server: " + errno_text(error));
  }
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(impl)));
}

StoreServer::StoreServer(const StoreServerOptions& options) {
  StoreResult<std::unique_ptr<StoreServer>> server = open(options);
  if (!server) throw std::runtime_error(server.error().reason);
  impl_ = std::move((*server)->impl_);
}

std::uint16_t StoreServer::port() const {
  return impl_->store().port();
}
std::string StoreServer::address() const {
  return impl_->store().address();
}
OpenStore& StoreServer::store() const {
  return impl_->store();
}

}  // namespace cpprun
