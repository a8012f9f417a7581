// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/open_store.h"

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "proto/c10d/codec.h"
#include "proto/text.h"
#include "rendezvous/byte_buffer.h"
#include "rendezvous/store/bounds.h"
#include "rendezvous/store/io/local_transport.h"
#include "rendezvous/store/io/machine_memory.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;
using Times = StoreNamespaces::Times;

void set_limit(std::uint64_t& limit, std::uint64_t given) {
  if (given != 0) limit = given;
}

MemoryLimits memory_for(const StoreServerOptions& options) {
  MemoryLimits limits = options.memory_bytes_max == 0
                            ? memory_of_this_machine()
                            : MemoryLimits{.bytes_max = options.memory_bytes_max};
  set_limit(limits.address_bytes_max, options.address_bytes_max);
  set_limit(limits.address_keys_max, options.address_keys_max);
  set_limit(limits.address_connections_max, options.address_clients_max);
  return limits;
}

// What is left behind in a fork stays reachable, so that no leak checker reports it.
void leave_behind(const ConnectionSet* connections) {
  static std::atomic<const ConnectionSet*> left;
  left = connections;
}

}  // namespace

// One store, open to every client that is admitted.
class OpenStore::Host : public StoreHost {
 public:
  explicit Host(OpenStore& owner) : owner_(owner) {
    store_.observe([&owner](c10d::Change change, std::string_view key, const StoredValue* value) {
      if (!owner.watches_.empty()) owner.observe(change, key, value);
    });
    if (!owner.namespaces_.empty()) store_.set_namespaces(&owner.namespaces_);
  }

  TakenProtocols taken() const override { return {.secure = owner_.is_secure_}; }
  void adopt_secure(FileDescriptor socket, PeerAddress peer, std::string first_bytes) override {
    owner_.secure_->adopt(std::move(socket), peer, std::move(first_bytes));
  }
  Result<void> admit(const PeerAddress& peer) override {
    if (owner_.is_secure_) return failure("this store has a secret, and the client uses none");
    return admit_client(peer);
  }
  Result<void> admit_client(const PeerAddress& peer) {
    const std::size_t others = owner_.socket_count() - 1;
    if (owner_.clients_max_ != 0 && others >= owner_.clients_max_) {
      return failure("the store has " + std::to_string(others) +
                     " clients already, the maximum that is configured");
    }
    if (!owner_.admit_) return {};
    owner_.admitting_ = std::this_thread::get_id();
    const bool is_admitted = owner_.admit_(owner_.name_of(peer));
    owner_.admitting_ = std::thread::id();
    if (!is_admitted) return failure("not admitted");
    return {};
  }
  Result<void> admit_stream(const PeerAddress& /*peer*/) override { return {}; }
  Store& store() override { return store_; }
  void adopt_link(FileDescriptor /*socket*/, PeerAddress peer,
                  std::string /*first_bytes*/) override {
    note({.ordinary = false,
          .peer = peer,
          .text = "closed: an agent of a job connected, and this port serves a plain store only"});
  }
  void note(Note note) override {
    if (note.ordinary || !owner_.log_) return;
    owner_.callbacks_.emplace_back(note.peer ? owner_.name_of(*note.peer) + " " + note.text
                                             : note.text);
  }

 private:
  OpenStore& owner_;
  Store store_;
};

// A client of the store that deletes keys whose leases have ended. Its requests take their turns
// like those of others. Used with the mutex.
class OpenStore::Reaper : public StoreStream {
 public:
  explicit Reaper(ConnectionSet& connections) : connections_(connections) {}

  std::size_t read(std::span<char> into) override {
    const std::size_t count = std::min(into.size(), sent_.size());
    if (count > 0) std::memcpy(into.data(), sent_.view().data(), count);
    sent_.drop_front(count);
    return count;
  }
  std::size_t write(std::string_view bytes) override { return bytes.size(); }
  void closed() override { is_over_ = true; }

  bool is_over() const { return is_over_; }
  ConnectionId id() const { return id_; }
  void begin(ConnectionId id) {
    id_ = id;
    send(c10d::Validate{});
  }
  void send(const c10d::Request& request) {
    std::string bytes;
    (void)c10d::encode(request, c10d::Dialect::d, bytes);  // dialect D has both that are sent
    sent_.append(bytes);
    connections_.tell_stream(id_, {.has_bytes = true});
  }

 private:
  ConnectionSet& connections_;
  ByteBuffer sent_;
  ConnectionId id_{};
  bool is_over_ = false;
};

OpenStore::OpenStore(const StoreServerOptions& options, StoreNamespaces namespaces)
    : log_(options.log),
      admit_(options.admit),
      clients_max_(options.clients_max),
      is_secure_(options.make_cipher != nullptr),
      namespaces_(std::move(namespaces)),
      host_(std::make_unique<Host>(*this)),
      connections_(
          std::make_unique<ConnectionSet>(ConnectionLimits{.memory = memory_for(options)})) {
  descriptor_ = connections_->descriptor();
}

StoreResult<std::shared_ptr<OpenStore>> OpenStore::open(const StoreServerOptions& options) {
  FileDescriptor passed(options.passed);
  Result<StoreNamespaces> namespaces = StoreNamespaces::of(options.namespaces);
  if (!namespaces) return failure(Code::bad_argument, namespaces.error().reason);
  std::shared_ptr<OpenStore> store;
  try {
    store.reset(new OpenStore(options, std::move(*namespaces)));
  } catch (const std::system_error& error) {
    return failure(Code::system, error.what());
  }
  if (options.make_cipher) {
    if (auto opened = store->open_secure(options.make_cipher); !opened) {
      return tl::unexpected(std::move(opened.error()));
    }
  }
  Result<Listening> listening = store->connections_->listen(
      *store->host_, {.host = options.host, .port = options.port, .passed = passed.release()});
  if (!listening) return failure(Code::system, listening.error().reason);
  store->listening_ = std::move(*listening);
  if (store->secure_) store->secure_->set_listener(store->listening_.id);
  store->open_reaper();
  return store;
}

StoreResult<void> OpenStore::open_secure(MakeCipher make_cipher) {
  try {
    secure_ = std::make_unique<SecureClients>(
        *connections_, std::move(make_cipher),
        SecureClients::Callbacks{
            .admit = [this](const PeerAddress& peer) { return host_->admit_client(peer); },
            .closed =
                [this](const PeerAddress& peer, const std::string& reason) {
                  host_->note({.peer = peer, .text = "closed: " + reason});
                }});
  } catch (const std::system_error& error) {
    return failure(Code::system, error.what());
  }
  both_.reset(epoll_create1(EPOLL_CLOEXEC));
  for (const int each : {connections_->descriptor(), secure_->descriptor()}) {
    epoll_event event{.events = EPOLLIN, .data = {.fd = each}};
    if (!both_ || epoll_ctl(both_.get(), EPOLL_CTL_ADD, each, &event) != 0) {
      return failure(Code::system, errno_text(errno));
    }
  }
  descriptor_ = both_.get();
  return {};
}

std::size_t OpenStore::socket_count() const {
  return connections_->socket_count() + (secure_ ? secure_->size() : 0);
}

OpenStore::~OpenStore() {
  if (owner_.is_this()) {
    (void)close_now();
  } else {
    let_go_in_fork();
  }
}

void OpenStore::let_go_in_fork() {
  if (connections_ == nullptr) return;
  both_.reset();
  if (mutex_.try_lock()) {
    reaper_.reset();
    connections_.reset();
    secure_.reset();
    host_.reset();
    return mutex_.unlock();
  }
  // Another thread was changing the store when the process was forked: its copy is unusable.
  connections_->close_copies();
  if (secure_) secure_->close_copies();
  (void)secure_.release();
  leave_behind(connections_.release());
  (void)host_.release();  // reachable from there
}

void OpenStore::help() {
  if (connections_->serve(Clock::now())) connections_->wake();
  settle();
  left_.notify_all();
}

void OpenStore::open_reaper() {
  if (namespaces_.empty()) return;
  reaper_ = std::make_shared<Reaper>(*connections_);
  const Result<ConnectionId> id = connections_->open_own_stream(listening_.id, reaper_);
  if (!id) return reaper_.reset();  // without memory; the next time
  namespaces_.set_owner(*id);
  reaper_->begin(*id);
}

// Only when the thread that serves has handled all that had arrived before: after a stall of this
// process, clients that are alive have renewed their leases, but nothing has read that yet. For a
// bounded time, because there may always be more.
bool OpenStore::leases_end_by_time() {
  if (!is_serving_) return false;
  const TimePoint now = Clock::now();
  const bool is_due = namespaces_.next_deadline().value_or(TimePoint::max()) <= now;
  pollfd input{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (!is_due || (!has_more_ && poll(&input, 1, 0) == 0)) {
    leases_held_since_.reset();
    return true;
  }
  if (!leases_held_since_) leases_held_since_ = now;
  return now - *leases_held_since_ >= bounds::store_leases_held_max;
}

void OpenStore::delete_ended(Times times) {
  try {
    for (const auto& key : namespaces_.take_ended(bounds::store_leases_ended_at_once, times)) {
      reaper_->send(c10d::DeleteKey{key});
    }
  } catch (const std::bad_alloc&) {
    namespaces_.set_owner(reaper_->id());  // they are taken again
  }
  connections_->serve_streams(Clock::now());
}

void OpenStore::settle() {
  if (!namespaces_.empty()) {
    if (reaper_ == nullptr || reaper_->is_over()) open_reaper();
    const auto times = leases_end_by_time() ? Times::count : Times::do_not_count;
    if (reaper_ != nullptr && namespaces_.has_ended(times)) {
      delete_ended(times);
    }
    if (namespaces_.has_ended()) connections_->wake();
    if (!is_serving_ && next_lease_ != namespaces_.next_deadline()) connections_->wake();
  }
  if (!is_serving_ && !callbacks_.empty()) connections_->wake();
}

Store& OpenStore::contents() {
  while (connections_->is_busy()) help();
  return host_->store();
}

std::string OpenStore::name_of(ConnectionId client) const {
  const PeerAddress peer = connections_->address_of(client);
  const bool is_local = connections_->is_stream(client) && !(secure_ && secure_->has(client));
  return is_local ? "this process" : name_of(peer);
}

// A client of a Unix socket has no address of its own.
std::string OpenStore::name_of(const PeerAddress& peer) const {
  return peer == PeerAddress{} ? listening_.address : peer.text();
}

StoreResult<void> OpenStore::usable() const {
  if (!is_admitting_here()) return {};
  return failure(Code::bad_argument, "a callback that admits clients cannot use its store");
}

StoreResult<std::unique_lock<std::mutex>> OpenStore::enter() {
  if (!owner_.is_this()) return failure(Code::forked, "the store belongs to the parent process");
  if (auto is_usable = usable(); !is_usable) return tl::unexpected(std::move(is_usable.error()));
  Removed removed;  // released after the mutex
  std::unique_lock lock(mutex_);
  if (is_closing_) removed = close_now();
  if (connections_ == nullptr) return failure(Code::closed, "the store is closed");
  if (!namespaces_.empty()) namespaces_.advance(Clock::now());
  return lock;
}

int OpenStore::next_wait_ms() {
  const auto lock = enter();
  if (!lock) return -1;
  if (has_more_ || !callbacks_.empty() || namespaces_.has_ended()) return 0;
  std::optional<TimePoint> deadline = connections_->next_deadline();
  next_lease_ = namespaces_.next_deadline();
  if (secure_) {
    const auto handshake = secure_->next_deadline();
    if (handshake && (!deadline || *handshake < *deadline)) deadline = handshake;
  }
  if (next_lease_ && (!deadline || *next_lease_ < *deadline)) deadline = next_lease_;
  if (!deadline) return -1;
  // Rounded up, so that the deadline has passed when the wait is over.
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, 60'000));
}

void OpenStore::serve() {
  const auto self = shared_from_this();  // a callback may release the last owner
  Removed removed;                       // released after the mutex
  if (auto lock = enter()) {
    is_serving_ = true;
    has_more_ = connections_->serve(Clock::now());
    if (secure_ && !is_closing_) {
      has_more_ = secure_->serve(Clock::now()) || has_more_;
      connections_->serve_streams(Clock::now());
    }
    if (!is_closing_) settle();
    is_serving_ = false;
    left_.notify_all();
    if (is_closing_) removed = close_now();
  } else {
    return;
  }
  make_callbacks();
}

void OpenStore::close() {
  if (is_admitting_here()) {
    is_closing_ = true;  // this thread holds the mutex, and is in the middle of a turn
    return;
  }
  Removed removed;
  if (auto lock = enter()) removed = close_now();
  // A callback that another thread is making ends first.
  if (owner_.is_this()) const std::lock_guard calling(calling_);
}

// With the mutex, or in the destructor.
OpenStore::Removed OpenStore::close_now() {
  if (connections_ == nullptr) return {};
  connections_->shut_down();
  if (secure_) secure_->shut_down();
  connections_.reset();
  secure_.reset();
  reaper_.reset();
  host_.reset();
  left_.notify_all();
  return {std::exchange(watches_, {}), std::exchange(callbacks_, {})};
}

StoreResult<void> OpenStore::drain(TimePoint deadline) {
  const auto self = shared_from_this();  // a fork must not destroy what a thread waits for
  auto lock = enter();
  if (!lock) return tl::unexpected(std::move(lock.error()));
  connections_->stop_accepting(listening_.id);
  const bool is_empty = left_.wait_until(
      *lock, deadline, [this] { return connections_ == nullptr || socket_count() == 0; });
  if (is_empty) return {};
  const std::size_t clients = socket_count();
  return failure(Code::timeout,
                 "clients still connected when the time was over: " + std::to_string(clients));
}

StoreResult<std::unique_ptr<StoreTransport>> OpenStore::transport() {
  return LocalTransport::open(shared_from_this());
}

StoreResult<StoreClient> OpenStore::connect(const StoreClientOptions& options) {
  auto transport = this->transport();
  if (!transport) return tl::unexpected(std::move(transport.error()));
  return StoreClient::over(std::move(*transport), options);
}

// --- watches and callbacks -----------------------------------------------------------------------

// Within a request, with the mutex.
void OpenStore::observe(c10d::Change change, std::string_view key, const StoredValue* value) {
  for (const auto& watch : watches_) {
    if (!key.starts_with(watch->prefix)) continue;
    // One event stands for all that do not fit, and for those that follow until it is delivered.
    if (watch->has_lost) continue;
    const std::size_t size = value == nullptr ? 0 : value->size();
    const std::size_t bytes = sizeof(Callback) + key.size() + size;
    if (callback_bytes_ + bytes > bounds::store_callback_bytes_max) {
      callbacks_.emplace_back(Event{.watch = watch, .change = StoreChange::lost});
      watch->has_lost = true;
      continue;
    }
    callbacks_.emplace_back(Event{.watch = watch,
                                  .change = static_cast<StoreChange>(change),
                                  .bytes = bytes,
                                  .key = std::string(key),
                                  .value = size == 0 ? "" : value->beginning(size)});
    callback_bytes_ += bytes;
  }
}

void OpenStore::add_watch(Watch watch) {
  watches_.push_back(std::make_shared<Watch>(std::move(watch)));
}

OpenStore::Removed OpenStore::remove_watches(ConnectionId client) {
  Removed removed;
  for (const auto& watch : watches_) {
    if (watch->client == client) removed.watches.push_back(watch);
  }
  if (removed.watches.empty()) return removed;
  std::erase_if(watches_, [client](const auto& watch) { return watch->client == client; });
  std::erase_if(callbacks_, [this, client](const Callback& callback) {
    const auto* const event = std::get_if<Event>(&callback);
    if (event == nullptr || event->watch->client != client) return false;
    callback_bytes_ -= event->bytes;
    return true;
  });
  return removed;
}

void OpenStore::make_callbacks() {
  const std::lock_guard calling(calling_);
  std::unique_lock lock(mutex_);
  std::size_t left = callbacks_.size();
  lock.unlock();
  // Clients are served in between, however many callbacks there are and however slow they are.
  for (const TimePoint end = Clock::now() + bounds::store_callbacks_slice; left > 0; --left) {
    lock.lock();
    if (callbacks_.empty()) return;  // they were dropped
    const Callback next = std::move(callbacks_.front());
    callbacks_.pop_front();
    const auto* const event = std::get_if<Event>(&next);
    if (event != nullptr) {
      callback_bytes_ -= event->bytes;
      if (event->change == StoreChange::lost) event->watch->has_lost = false;
    }
    lock.unlock();
    if (event != nullptr) {
      event->watch->watcher(event->change, event->key, event->value);
    } else {
      log_(std::get<std::string>(next));
    }
    if (Clock::now() >= end) return;
  }
}

}  // namespace cpprun
