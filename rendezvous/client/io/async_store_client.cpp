// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/client/io/async_store_client.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_map>
#include <utility>

#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/client/bounds.h"
#include "rendezvous/client/io/store_dialler.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/owner_process.h"

namespace cpprun {

namespace {

using Clock = std::chrono::steady_clock;
using Code = StoreErrorCode;

// What an entry of the epoll set stands for: a connection, or one of these.
constexpr std::uint64_t wake_event = UINT64_MAX;
constexpr std::uint64_t timer_event = UINT64_MAX - 1;
// Watches have ids of their own, which no request reaches.
constexpr AsyncRequestId first_watch_id = AsyncRequestId{1} << 62;

tl::unexpected<StoreError> forked() {
  return failure(Code::forked,
                 "the parent process opened this client before a fork; open another one in the "
                 "forked process");
}

StoreError interrupted(const char* how) {
  return {{how}, Code::interrupted};
}

// Changes on their way from the thread that serves the store to that of the client.
class ChangeQueue {
 public:
  struct Change {
    StoreChange change{};
    std::string key;
    std::string value;
  };

  // Takes a duplicate of the client's eventfd, which this queue may outlive.
  explicit ChangeQueue(int wake) : wake_(::fcntl(wake, F_DUPFD_CLOEXEC, 0)) {}

  void push(StoreChange change, const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    if (is_lost_) return;  // the event that says so is queued
    const std::size_t bytes = sizeof(Change) + key.size() + value.size();
    is_lost_ = bytes_ + bytes > bounds::async_watch_bytes_max;
    if (is_lost_) {
      changes_.push_back({StoreChange::lost, "", ""});
    } else {
      changes_.push_back({change, key, value});
      bytes_ += bytes;
    }
    (void)eventfd_write(wake_.get(), 1);  // far from its maximum
  }
  std::deque<Change> take() {
    const std::lock_guard lock(mutex_);
    bytes_ = 0;
    is_lost_ = false;
    return std::exchange(changes_, {});
  }

 private:
  std::mutex mutex_;
  std::deque<Change> changes_;
  std::size_t bytes_ = 0;
  bool is_lost_ = false;
  const FileDescriptor wake_;
};

}  // namespace

class AsyncStoreClient::Impl {
 public:
  Impl(const StoreClientOptions& options, Connect connect)
      : options_(options), connect_(std::move(connect)), requests_(options.key_prefix) {}

  StoreResult<void> open();
  template <class Request>
  StoreResult<Id> start(Timeout timeout, Done done, Request request);
  StoreResult<Id> watch(std::string prefix, LocalStore::Watcher watcher, Done ended);
  bool cancel(Id id);
  int descriptor() const { return epoll_.get(); }
  void dispatch(const std::shared_ptr<AsyncStoreClient>& self);
  std::size_t in_progress() const { return callbacks_.size(); }
  bool is_broken() const { return !owner_.is_this() || requests_.broken().has_value(); }
  bool is_closed() const { return is_closed_; }
  void close();

 private:
  // One connection of `requests_`.
  struct Connection {
    std::unique_ptr<StoreDialler> dialler;      // while it is being opened,
    std::unique_ptr<StoreTransport> transport;  // and from then on
    int watched = -1;                           // its descriptor in the epoll set
    std::uint32_t events = 0;                   // for which it is watched
  };
  struct Watch {
    std::unique_ptr<StoreTransport> transport;  // whose end ends the watch
    std::shared_ptr<ChangeQueue> changes;
    LocalStore::Watcher watcher;
  };
  using Ended = std::pair<Id, StoreResult<AsyncValue>>;

  // Does the actions, writes what can be written, and sets the timer.
  void settle();
  void perform();
  void perform(const async_request::Open& open);
  void perform(const async_request::Close& close);
  void open_now(std::size_t connection);
  void advance_dialler(std::size_t connection);
  void lose(std::size_t connection, const StoreError& error);
  void write(std::size_t connection);
  void read(std::size_t connection);
  void handle(const epoll_event& event);
  void set_timer();
  // False: the connection was lost.
  bool watch_descriptor(std::size_t connection, int fd, std::uint32_t events);
  // Receives and sends. Whether there is more to do.
  bool turn();
  bool call_back(const std::shared_ptr<AsyncStoreClient>& self);
  bool call_watchers(const std::shared_ptr<AsyncStoreClient>& self);
  void wake() { (void)eventfd_write(wake_.get(), 1); }  // far from its maximum

  const StoreClientOptions options_;
  const Connect connect_;
  const OwnerProcess owner_;
  FileDescriptor epoll_;
  FileDescriptor wake_;   // an eventfd
  FileDescriptor timer_;  // a timerfd
  std::optional<TimePoint> timer_is_set_;
  AsyncRequests requests_;
  std::vector<Connection> connections_;  // by their numbers
  std::unordered_map<Id, Done> callbacks_;
  std::deque<Ended> ended_;  // whose callbacks are due
  std::map<Id, Watch> watches_;
  Id last_watch_id_ = first_watch_id;
  bool is_dispatching_ = false;
  bool is_closed_ = false;
};

StoreResult<void> AsyncStoreClient::Impl::open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  epoll_event wake{.events = EPOLLIN, .data = {.u64 = wake_event}};
  epoll_event timer{.events = EPOLLIN, .data = {.u64 = timer_event}};
  if (!epoll_ || !wake_ || !timer_ ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &wake) != 0 ||
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, timer_.get(), &timer) != 0) {
    return failure(Code::system, errno_text(errno));
  }
  settle();
  // A store in this process may be closed, and a path may be too long.
  if (requests_.broken()) return tl::unexpected(*requests_.broken());
  return {};
}

// --- requests ------------------------------------------------------------------------------------

template <class Request>
StoreResult<AsyncRequestId> AsyncStoreClient::Impl::start(Timeout timeout, Done done,
                                                          Request request) {
  if (!owner_.is_this()) return forked();
  const TimePoint now = Clock::now();
  auto id = request(requests_, now + timeout.value_or(options_.timeout));
  if (!id) return id;
  callbacks_.emplace(*id, std::move(done));
  if (!is_dispatching_) settle();  // it leaves at once, or with others at the end of the dispatch
  return id;
}

StoreResult<AsyncRequestId> AsyncStoreClient::Impl::watch(std::string prefix,
                                                          LocalStore::Watcher watcher, Done ended) {
  if (!owner_.is_this()) return forked();
  if (is_closed_) return failure(Code::interrupted, "the client is closed");
  if (!connect_) {
    return failure(Code::bad_argument, "the store of this client is not in this process");
  }
  auto transport = connect_();
  if (!transport) return tl::unexpected(std::move(transport.error()));
  const auto changes = std::make_shared<ChangeQueue>(wake_.get());
  auto watching =
      (*transport)
          ->local()
          ->watch(options_.key_prefix + prefix,
                  [changes](StoreChange change, const std::string& key, const std::string& value) {
                    changes->push(change, key, value);
                  });
  if (!watching) return tl::unexpected(std::move(watching.error()));
  const Id id = ++last_watch_id_;
  watches_.emplace(id, Watch{std::move(*transport), changes, std::move(watcher)});
  callbacks_.emplace(id, std::move(ended));
  return id;
}

bool AsyncStoreClient::Impl::cancel(Id id) {
  if (!owner_.is_this()) return false;
  const StoreError error = interrupted("the request was cancelled");
  if (watches_.erase(id) > 0) {
    ended_.emplace_back(id, tl::unexpected(error));
  } else if (!requests_.cancel(id, error)) {
    return false;
  }
  if (!is_dispatching_) settle();
  return true;
}

void AsyncStoreClient::Impl::close() {
  if (std::exchange(is_closed_, true) || !owner_.is_this()) return;
  watches_.clear();
  requests_.end(interrupted("the client was closed"));
  perform();
  for (auto& connection : connections_) connection = {};
  // Callbacks must not start requests, which would fail; each is called once.
  for (auto callbacks = std::exchange(callbacks_, {}); auto& [id, done] : callbacks) {
    if (done) done(id, tl::unexpected(interrupted("the client was closed")));
  }
}

// --- connections ---------------------------------------------------------------------------------

void AsyncStoreClient::Impl::settle() {
  perform();
  for (std::size_t each = 0; each < connections_.size(); ++each) write(each);
  perform();
  set_timer();
  const bool must_end_watches = requests_.broken() && !watches_.empty();
  if ((!ended_.empty() || must_end_watches) && !is_dispatching_) wake();
}

void AsyncStoreClient::Impl::perform() {
  // An action may cause further ones.
  for (auto actions = requests_.take_actions(); !actions.empty();
       actions = requests_.take_actions()) {
    for (auto& action : actions) {
      std::visit(Overloaded{[this](async_request::Done& done) {
                              ended_.emplace_back(done.id, std::move(done.result));
                            },
                            [this](const auto& other) { perform(other); }},
                 action);
    }
  }
}

void AsyncStoreClient::Impl::perform(const async_request::Open& open) {
  if (connections_.size() <= open.connection) connections_.resize(open.connection + 1);
  if (connect_) return open_now(open.connection);
  connections_[open.connection].dialler = std::make_unique<StoreDialler>(
      StoreAddress{options_.host, options_.port, options_.make_cipher}, options_.connect_timeout);
  advance_dialler(open.connection);
}

void AsyncStoreClient::Impl::perform(const async_request::Close& close) {
  (void)watch_descriptor(close.connection, -1, 0);
  connections_[close.connection] = {};
}

void AsyncStoreClient::Impl::open_now(std::size_t connection) {
  auto transport = connect_();
  if (!transport) return lose(connection, transport.error());
  const StoreResult<int> fd = (*transport)->descriptor();
  if (!fd) return lose(connection, fd.error());
  connections_[connection].transport = std::move(*transport);
  if (watch_descriptor(connection, *fd, EPOLLIN)) requests_.opened(connection);
}

void AsyncStoreClient::Impl::advance_dialler(std::size_t connection) {
  Connection& its = connections_[connection];
  // The next socket may have the same number.
  (void)watch_descriptor(connection, -1, 0);
  auto outcome = its.dialler->advance();
  if (!outcome) {
    if (connection == 0) requests_.set_problem(its.dialler->problem());
    const StoreDialler::Awaited& awaited = its.dialler->awaited();
    (void)watch_descriptor(connection, awaited.descriptor,
                           static_cast<std::uint32_t>(awaited.events));
    return;
  }
  its.dialler.reset();
  if (!*outcome) return lose(connection, outcome->error());
  its.transport = std::move(**outcome);
  if (watch_descriptor(connection, *its.transport->descriptor(), EPOLLIN)) {
    requests_.opened(connection);
  }
}

// `fd` -1: no longer.
bool AsyncStoreClient::Impl::watch_descriptor(std::size_t connection, int fd,
                                              std::uint32_t events) {
  Connection& its = connections_[connection];
  if (its.watched == fd && (its.events == events || fd < 0)) return true;
  epoll_event event{.events = events, .data = {.u64 = connection}};
  if (fd < 0) {
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, its.watched, &event);
  } else if (epoll_ctl(epoll_.get(), its.watched == fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd,
                       &event) != 0) {
    its.watched = -1;
    lose(connection, {{"cannot watch a socket: " + errno_text(errno)}, Code::system});
    return false;
  }
  its.watched = fd;
  its.events = events;
  return true;
}

void AsyncStoreClient::Impl::lose(std::size_t connection, const StoreError& error) {
  perform(async_request::Close{connection});
  requests_.lost(connection, error);
}

void AsyncStoreClient::Impl::write(std::size_t connection) {
  Connection& its = connections_[connection];
  if (its.transport == nullptr) return;
  while (!requests_.unsent(connection).empty()) {
    const auto count = its.transport->send(requests_.unsent(connection), {});
    if (!count) {
      if (count.error().code != Code::timeout) return lose(connection, count.error());
      break;
    }
    requests_.sent(connection, *count);
  }
  bool is_stuck = !requests_.unsent(connection).empty();
  if (!is_stuck) {
    const auto flushed = its.transport->flush({});
    if (!flushed && flushed.error().code != Code::timeout) {
      return lose(connection, flushed.error());
    }
    is_stuck = !flushed;
  }
  (void)watch_descriptor(connection, its.watched, is_stuck ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void AsyncStoreClient::Impl::read(std::size_t connection) {
  const auto count = connections_[connection].transport->receive(requests_.room(connection), {});
  if (count) {
    requests_.received(connection, *count);
  } else if (count.error().code != Code::timeout) {
    lose(connection, count.error());
  }
}

// --- dispatching ---------------------------------------------------------------------------------

void AsyncStoreClient::Impl::set_timer() {
  std::optional<TimePoint> next = requests_.next_deadline();
  for (const Connection& connection : connections_) {
    if (connection.dialler == nullptr) continue;
    const TimePoint until = connection.dialler->awaited().until;
    if (!next || until < *next) next = until;
  }
  // It may expire too early, which saves most of these calls.
  if (!next || (timer_is_set_ && *timer_is_set_ <= *next)) return;
  timer_is_set_ = next;
  const auto since = std::max(next->time_since_epoch(), Duration(1));  // 0 would disarm it
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(since - seconds).count();
  (void)timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);  // it is valid
}

void AsyncStoreClient::Impl::handle(const epoll_event& event) {
  const std::uint64_t which = event.data.u64;
  std::uint64_t ignored = 0;
  if (which == wake_event) {
    (void)eventfd_read(wake_.get(), &ignored);
    return;
  }
  if (which == timer_event) {
    (void)eventfd_read(timer_.get(), &ignored);  // as of an eventfd: how often it has expired
    timer_is_set_.reset();
    for (std::size_t each = 0; each < connections_.size(); ++each) {
      if (connections_[each].dialler) advance_dialler(each);
    }
    return;
  }
  // Earlier events of the same turn may have closed it.
  const auto connection = static_cast<std::size_t>(which);
  if (connections_[connection].dialler) return advance_dialler(connection);
  if (connections_[connection].transport == nullptr) return;
  if ((event.events & EPOLLOUT) != 0) write(connection);
  const bool is_readable = (event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0;
  if (is_readable && connections_[connection].transport != nullptr) read(connection);
}

bool AsyncStoreClient::Impl::turn() {
  std::array<epoll_event, bounds::async_events_per_turn> events{};
  int count = 1;
  for (int turn = 0; count > 0 && turn < bounds::async_turns_per_dispatch; ++turn) {
    count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), /*timeout=*/0);
    for (int each = 0; each < count; ++each) {
      handle(events[static_cast<std::size_t>(each)]);
      perform();  // connections that were closed have no further events
    }
  }
  requests_.advance(Clock::now());
  settle();
  return count > 0;
}

void AsyncStoreClient::Impl::dispatch(const std::shared_ptr<AsyncStoreClient>& self) {
  // A callback that dispatches would see later results first.
  if (!owner_.is_this() || is_closed_ || is_dispatching_) return;
  bool has_more = false;
  {
    is_dispatching_ = true;
    const std::unique_ptr<bool, void (*)(bool*)> ends_here(&is_dispatching_,
                                                           [](bool* flag) { *flag = false; });
    try {
      has_more = turn();
    } catch (const std::bad_alloc&) {
      // What was received is incomplete. This text needs no memory.
      requests_.end({{"out of memory"}, Code::no_memory});
      settle();
      // Those whose results were lost.
      for (const auto& [id, done] : callbacks_) {
        const auto is_it = [id = id](const Ended& each) { return each.first == id; };
        if (watches_.contains(id) || std::ranges::any_of(ended_, is_it)) continue;
        ended_.emplace_back(id, tl::unexpected(StoreError{{"out of memory"}, Code::no_memory}));
      }
    }
    if (!call_back(self) || !call_watchers(self)) return;
  }
  settle();  // what the callbacks have requested
  // An edge-triggered loop sees only what becomes readable from now on.
  if (has_more) wake();
}

// False: the client was closed.
bool AsyncStoreClient::Impl::call_back(const std::shared_ptr<AsyncStoreClient>& self) {
  // What callbacks cause is left to the next dispatch.
  for (auto ended = std::exchange(ended_, {}); !ended.empty(); ended.pop_front()) {
    auto callback = callbacks_.extract(ended.front().first);
    if (!callback.empty() && callback.mapped()) {
      callback.mapped()(ended.front().first, ended.front().second);
    }
    if (self->impl_->is_closed_) return false;
  }
  return true;
}

bool AsyncStoreClient::Impl::call_watchers(const std::shared_ptr<AsyncStoreClient>& self) {
  std::vector<Id> ids;
  for (const auto& [id, watch] : watches_) ids.push_back(id);
  for (const Id id : ids) {
    const auto at = watches_.find(id);
    if (at == watches_.end()) continue;
    const bool is_last = requests_.broken().has_value();
    const LocalStore::Watcher watcher = at->second.watcher;
    for (const ChangeQueue::Change& change : at->second.changes->take()) {
      const std::size_t skipped = std::min(options_.key_prefix.size(), change.key.size());
      watcher(change.change, change.key.substr(skipped), change.value);
      if (self->impl_->is_closed_) return false;
      if (!watches_.contains(id)) break;
    }
    if (is_last && watches_.erase(id) > 0) {
      ended_.emplace_back(id, tl::unexpected(*requests_.broken()));
    }
  }
  return true;
}

// --- the client ----------------------------------------------------------------------------------

AsyncStoreClient::AsyncStoreClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AsyncStoreClient::~AsyncStoreClient() {
  impl_->close();
}

StoreResult<std::shared_ptr<AsyncStoreClient>> AsyncStoreClient::open(
    const StoreClientOptions& options, Connect connect) {
  auto impl = std::make_unique<Impl>(options, std::move(connect));
  if (auto opened = impl->open(); !opened) return tl::unexpected(std::move(opened.error()));
  return std::shared_ptr<AsyncStoreClient>(new AsyncStoreClient(std::move(impl)));
}

int AsyncStoreClient::descriptor() const {
  return impl_->descriptor();
}
void AsyncStoreClient::dispatch() {
  const auto self = shared_from_this();  // a callback may release the last owner
  impl_->dispatch(self);
}
std::size_t AsyncStoreClient::in_progress() const {
  return impl_->in_progress();
}
bool AsyncStoreClient::is_broken() const {
  return impl_->is_broken();
}
void AsyncStoreClient::close() {
  const auto self = shared_from_this();
  impl_->close();
}

StoreResult<AsyncRequestId> AsyncStoreClient::set(std::string_view key, std::string_view value,
                                                  Timeout timeout, Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.set(deadline, key, value);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::get(std::string_view key, Timeout timeout,
                                                  Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.get(deadline, key);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::find(std::string_view key, Timeout timeout,
                                                   Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.find(deadline, key);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::add(std::string_view key, std::int64_t delta,
                                                  Timeout timeout, Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.add(deadline, key, delta);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::compare_set(std::string_view key,
                                                          std::string_view expected,
                                                          std::string_view desired, Timeout timeout,
                                                          Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.compare_set(deadline, key, expected, desired);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::delete_key(std::string_view key, Timeout timeout,
                                                         Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.delete_key(deadline, key);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::wait(const std::vector<std::string>& keys,
                                                   Timeout timeout, Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.wait(deadline, keys);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::barrier(std::string_view key, std::int64_t world_size,
                                                      Timeout timeout, Done done) {
  return impl_->start(timeout, std::move(done), [&](AsyncRequests& requests, TimePoint deadline) {
    return requests.barrier(deadline, key, world_size);
  });
}

StoreResult<AsyncRequestId> AsyncStoreClient::watch(std::string_view prefix,
                                                    LocalStore::Watcher watcher, Done ended) {
  return impl_->watch(std::string(prefix), std::move(watcher), std::move(ended));
}

bool AsyncStoreClient::cancel(Id id) {
  return impl_->cancel(id);
}

}  // namespace cpprun
