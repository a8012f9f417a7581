// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

constexpr const char* lacks_memory = "there is no memory for what it wants";
// Of the descriptor with which the set wakes its driver.
constexpr std::uint64_t wake_mark = ~std::uint64_t{0};
// Of what watches the doors: somebody is there.
constexpr std::uint64_t doors_mark = wake_mark - 1;

HashSeed random_seed() {
  std::random_device random;
  const auto word = [&random] { return std::uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

// Store clients and strangers for which there are descriptors below the first that is kept, beside
// those that are open already: `spare` is the newest of them.
std::size_t clients_that_fit(int kept_from, int spare) {
  return static_cast<std::size_t>(std::max(1, kept_from - spare - 1));
}

}  // namespace

ConnectionSet::ConnectionSet(ConnectionLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
ConnectionSet::~ConnectionSet() = default;

Result<Listening> ConnectionSet::listen(StoreHost& host, const ListenOptions& options) {
  return impl_->listen(host, options);
}
void ConnectionSet::stop_listening(ListenerId listener, const std::string& reason) {
  impl_->stop_listening(listener, reason);
}
void ConnectionSet::close_clients(ListenerId listener, const std::string& reason) {
  impl_->close_clients(listener, reason);
}
int ConnectionSet::descriptor() const {
  return impl_->descriptor();
}
bool ConnectionSet::serve(TimePoint now) {
  return impl_->serve(now);
}
std::optional<TimePoint> ConnectionSet::next_deadline() const {
  return impl_->next_deadline();
}
std::size_t ConnectionSet::connection_count() const {
  return impl_->connection_count();
}
const Ledger& ConnectionSet::ledger() const {
  return impl_->ledger();
}

Ledger& ConnectionSet::ledger() {
  return impl_->ledger();
}

ConnectionSet::Impl::Impl(ConnectionLimits limits)
    : limits_(limits),
      ledger_(std::make_shared<Ledger>(limits.memory, random_seed())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      doors_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      spare_(open_spare()),
      kept_for_links_from_(limits.keeps_descriptors_for_links ? first_descriptor_for_links()
                                                              : std::numeric_limits<int>::max()),
      clients_max_(clients_that_fit(kept_for_links_from_, spare_.get())),
      read_(bounds::store_read_bytes) {
  const auto watched = [this](const FileDescriptor& descriptor, std::uint64_t mark) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = mark;
    return descriptor && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) == 0;
  };
  if (!epoll_ || !watched(wake_, wake_mark) || !watched(doors_, doors_mark)) {
    throw std::system_error(errno, std::generic_category(), "epoll");
  }
  ledger_->tend(true);
}

ConnectionSet::Impl::~Impl() {
  // Nobody is told any more: who owns the hosts decides in which order things end.
  for (Connection& connection : table_.slots()) {
    if (connection.id.value != 0) FileDescriptor closing(connection.fd);
  }
  // Stores that outlive this free what is theirs themselves.
  ledger_->tend(false);
}

// --- ports -------------------------------------------------------------------------------------

Result<Listening> ConnectionSet::Impl::listen(StoreHost& host, const ListenOptions& options) {
  Result<OpenPort> open = options.hosts.empty() ? open_port(options.host, options.port)
                                                : open_port(options.hosts, options.port);
  if (!open) return tl::unexpected<Error>(open.error());
  auto place = std::ranges::find_if(ports_, [](const Port& each) {
    return each.host == nullptr && !each.is_resting && each.left == 0;
  });
  if (place == ports_.end()) place = ports_.emplace(ports_.end());
  const auto number = static_cast<std::uint32_t>(place - ports_.begin());
  Port& port = *place;
  port = {.host = &host, .dialect = options.dialect, .open = std::move(*open)};
  if (!watch(port, number)) {
    const std::string reason = errno_text(errno);
    const std::string address = port.open.address;
    port = {};
    return failure(fmt::format("cannot watch the port {}: {}", address, reason));
  }
  port_sockets_ += port.open.sockets.size();
  return Listening{ListenerId{number}, port.open.port, port.open.address, port.open.hosts};
}

// --- lives -------------------------------------------------------------------------------------

void ConnectionSet::Impl::update_interest(Connection& connection) {
  epoll_event event{};
  event.events = (connection.is_paused ? 0U : EPOLLIN) |
                 (connection.awaits_writable ? static_cast<unsigned>(EPOLLOUT) : 0U);
  event.data.u64 = connection.id.value;
  // The descriptor is open and was added; there is nothing this could fail of.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd, &event);
}

// --- the loop's slice --------------------------------------------------------------------------

bool ConnectionSet::Impl::serve(TimePoint now) {
  now_ = now;
  work_left_ = static_cast<std::ptrdiff_t>(limits_.work_per_turn);
  ledger_->free_some(limits_.work_per_turn);
  recover_memory();
  if (is_busy() || !to_decide_.empty()) serve_doors();
  if (go_on_with_stores()) return true;
  if (long_) {
    with_memory(long_->from, [this] { go_on_with_long(); });
    return true;
  }
  with_memory({}, [this] { close_doomed(); });
  // One part of a long list may take all of a turn: then the next one is the others'.
  if (!to_decide_.empty() && std::exchange(events_are_first_, !events_are_first_)) serve_events();
  decide_queued();
  serve_events();
  with_memory({}, [this] {
    flush_queued();
    run_timers();
  });
  return next_event_ < event_count_ || event_count_ == events_.size() || !to_send_.empty() ||
         !to_decide_.empty() || !doomed_.empty() || !unfinished_.empty() || long_.has_value() ||
         ledger_->has_remains() || (!timers_.empty() && timers_.top().when <= now_);
}

// Whom a request concerns may be more than one turn can tell. Until all of them are told nothing
// else is decided, and links are served in between.
bool ConnectionSet::Impl::go_on_with_stores() {
  for (; !unfinished_.empty(); unfinished_.pop_back()) {
    StoreHost* const host = ports_[unfinished_.back()].host;
    if (host == nullptr || !host->store().has_unfinished()) continue;
    with_memory({}, [&] {
      actions_.clear();
      host->store().go_on(bounds::store_told_in_turn, actions_);
      perform(actions_);
    });
    flush_queued();
    return true;
  }
  return false;
}

// What this turn has no time for is the first thing of the next one.
void ConnectionSet::Impl::serve_events() {
  if (next_event_ == event_count_) {
    const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
    event_count_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    next_event_ = 0;
  }
  while (next_event_ < event_count_ && work_left_ > 0 && !is_busy()) {
    const epoll_event event = events_[next_event_++];
    with_memory(ConnectionId{event.data.u64}, [&] { handle(event); });
  }
}

// To close it takes memory, too: what is kept for that is given up first. Where even that is not
// enough it is closed as soon as there is some.
void ConnectionSet::Impl::lack_memory(ConnectionId id) {
  last_memory_.reset();
  served_ = {};
  replies_ = {};
  actions_ = {};
  memory_.reset();
  small_inbox_.clear();
  // Its request is half done, and would never be answered.
  const ConnectionId interrupted = long_ ? long_->from : id;
  long_.reset();
  for (const ConnectionId each : {id, interrupted}) {
    Connection* connection = heard(each);
    if (connection == nullptr) continue;
    try {
      close(*connection, lacks_memory);
    } catch (const std::bad_alloc&) {
      connection = heard(each);
      if (connection == nullptr) continue;
      connection->is_doomed = true;
      has_unlisted_doomed_ = true;
    }
  }
}

void ConnectionSet::Impl::recover_memory() {
  if (last_memory_ != nullptr) return;
  last_memory_.reset(new (std::nothrow) char[bounds::store_last_memory_bytes]);
  if (last_memory_ == nullptr || !has_unlisted_doomed_) return;
  with_memory({}, [this] {
    const auto reason = std::make_shared<const std::string>(lacks_memory);
    for (Connection& connection : table_.slots()) {
      if (connection.id.value == 0 || !connection.is_doomed) continue;
      if (std::ranges::find(doomed_, connection.id, &Doomed::id) != doomed_.end()) continue;
      doomed_.push_back({connection.id, reason});
    }
    has_unlisted_doomed_ = false;
  });
}

void ConnectionSet::Impl::handle(const epoll_event& event) {
  if (event.data.u64 == wake_mark) return;  // close_doomed() sees to it
  if (event.data.u64 == doors_mark) return serve_doors();
  const ConnectionId id{event.data.u64};
  if ((event.events & EPOLLOUT) != 0) {
    if (Connection* connection = heard(id)) on_writable(*connection);
  }
  if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  Connection* connection = heard(id);
  if (connection == nullptr) return;
  if (!connection->is_paused) return on_readable(*connection);
  // Nothing is read from a paused connection; these two are reported all the same.
  if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
    close(*connection, "left with replies unread", true);
  }
}

void ConnectionSet::Impl::arm(TimerKind kind, std::uint64_t subject, Duration delay) {
  timers_.push({now_ + delay, kind, subject});
}

std::optional<TimePoint> ConnectionSet::Impl::next_deadline() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.top().when;
}

void ConnectionSet::Impl::run_timers() {
  while (work_left_ > 0 && !timers_.empty() && timers_.top().when <= now_) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (timer.kind == TimerKind::rest) {
      Port& port = ports_[timer.subject];
      port.is_resting = port.host != nullptr && !watch(port, timer.subject);
      if (port.is_resting) arm(TimerKind::rest, timer.subject, bounds::store_accept_rest);
      continue;
    }
    Connection* connection = heard(ConnectionId{timer.subject});
    if (connection == nullptr) continue;
    if (timer.kind == TimerKind::ambiguity) {
      if (connection->is_ambiguous) {
        with_memory(connection->id, [&] { digest_inbox(*connection, true); });
      }
    } else if (timer.kind == TimerKind::greeting) {
      if (connection->speaks == Speaks::unknown_yet) {
        close(*connection, "it began to greet, and then said nothing");
      }
    } else {
      look_at_reader(*connection);
    }
  }
}

// Drops a paused client that took nothing for too long.
void ConnectionSet::Impl::look_at_reader(Connection& connection) {
  connection.is_timed = false;
  if (!connection.is_paused) return;
  const Duration idle = now_ - connection.backlog->last_taken;
  if (idle < limits_.reader_stall_max) {
    connection.is_timed = true;
    return arm(TimerKind::stall, connection.id.value, limits_.reader_stall_max - idle);
  }
  close(connection,
        fmt::format("took none of the {} bytes that wait for it in {} ms",
                    connection.backlog->outbox.size(),
                    std::chrono::duration_cast<std::chrono::milliseconds>(idle).count()));
}

}  // namespace cpprun
