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

#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

// Marks an event of a listening socket; the rest of it is the port's number. Connection ids never
// grow that far.
constexpr std::uint64_t port_mark = std::uint64_t{1} << 63;
// Of the descriptor with which the set wakes its driver.
constexpr std::uint64_t wake_mark = ~std::uint64_t{0};

int open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

HashSeed random_seed() {
  std::random_device random;
  const auto word = [&random] { return std::uint64_t{random()} << 32 | random(); };
  return {word(), word()};
}

bool is_lack_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
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
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      spare_(open_spare()),
      kept_for_links_from_(limits.keeps_descriptors_for_links ? first_descriptor_for_links()
                                                              : std::numeric_limits<int>::max()),
      read_(bounds::store_read_bytes) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wake_mark;
  if (!epoll_ || !wake_ || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
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
  return Listening{ListenerId{number}, port.open.port, port.open.address, port.open.hosts};
}

bool ConnectionSet::Impl::watch(Port& port, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = port_mark | number;
  return std::ranges::all_of(port.open.sockets, [&](const FileDescriptor& socket) {
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0;
  });
}

void ConnectionSet::Impl::unwatch(Port& port) {
  for (const FileDescriptor& socket : port.open.sockets) {
    // It was watched, so this cannot fail.
    (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  }
}

void ConnectionSet::Impl::accept_some(std::uint64_t number) {
  Port& port = ports_[number];
  for (std::size_t at = 0; at < port.open.sockets.size(); ++at) {
    const int listening = port.open.sockets[at].get();
    while (work_left_ > 0) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int fd = accept4(listening, reinterpret_cast<sockaddr*>(&address), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        open_connection(fd, peer_of(address), static_cast<std::uint32_t>(number));
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (!is_lack_of_resources(errno)) continue;  // that client left while it stood in line
      const int error = errno;
      if (make_room() || refuse_for_lack(port, listening, error)) continue;
      unwatch(port);
      port.is_resting = true;
      return arm(TimerKind::rest, number, bounds::store_accept_rest);
    }
  }
}

bool ConnectionSet::Impl::make_room(ConnectionId newest) {
  Connection* const silent = strangers_.longest_silent(table_, newest);
  if (silent == nullptr) return false;
  close(*silent, "it said nothing, and others need its descriptor (ulimit -Hn)");
  return true;
}

// Some number below may have become free since that one was given.
bool ConnectionSet::Impl::is_kept_for_links(int fd) const {
  if (fd < kept_for_links_from_) return false;
  const FileDescriptor lowest(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return !lowest || lowest.get() >= kept_for_links_from_;
}

// Takes the next client in line with the spare descriptor and closes it again: left in line, it
// would keep the port readable for ever and everybody busy with nothing. False: not even that.
bool ConnectionSet::Impl::refuse_for_lack(Port& port, int listening, int error) {
  spare_.reset();
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  FileDescriptor refused(
      accept4(listening, reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC));
  const bool was_refused = static_cast<bool>(refused);
  const std::string why = errno_text(error);
  refused.reset();
  spare_.reset(open_spare());
  if (was_refused) {
    port.host->note({.peer = peer_of(address), .text = "refused: " + why});
  } else {
    port.host->note({.ordinary = false,
                     .peer = std::nullopt,
                     .text = fmt::format("cannot accept on {}: {}", port.open.address, why),
                     .level = LogLevel::warning});
  }
  return was_refused;
}

// --- lives -------------------------------------------------------------------------------------

void ConnectionSet::Impl::open_connection(int fd, const PeerAddress& peer, std::uint32_t listener) {
  FileDescriptor socket(fd);
  spend(bounds::store_work_of_connection);
  if (const std::string objection = ledger_->objection_to_connection(peer); !objection.empty()) {
    return ports_[listener].host->note({.peer = peer, .text = "refused: " + objection});
  }
  Connection& connection = table_.open(fd, peer, listener);
  connection.account = ledger_->open_connection(peer);
  connection.conversation.dialect = ports_[listener].dialect;
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connection.id.value;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const std::string why = errno_text(errno);
    ledger_->close_connection(connection.account);
    table_.release(connection);
    return ports_[listener].host->note({.peer = peer, .text = "refused: " + why});
  }
  (void)socket.release();  // the table's now
  const ConnectionId id = connection.id;
  strangers_.add(id, table_);
  if (is_kept_for_links(fd)) make_room(id);
}

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
  if (go_on_with_stores()) return true;
  if (long_) {
    with_memory(long_->from, [this] { go_on_with_long(); });
    return true;
  }
  close_doomed();
  decide_queued();
  serve_events();
  flush_queued();
  run_timers();
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
    const bool is_port = (event.data.u64 & port_mark) != 0;
    with_memory(ConnectionId{is_port ? 0 : event.data.u64}, [&] { handle(event); });
  }
}

void ConnectionSet::Impl::lack_memory(ConnectionId id) {
  served_ = {};
  replies_ = {};
  actions_ = {};
  memory_.reset();
  small_inbox_.clear();
  long_.reset();
  if (Connection* connection = heard(id)) {
    close(*connection, "there is no memory for what it wants");
  }
}

void ConnectionSet::Impl::handle(const epoll_event& event) {
  if (event.data.u64 == wake_mark) return;  // close_doomed() sees to it
  if ((event.data.u64 & port_mark) != 0) return accept_some(event.data.u64 & ~port_mark);
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
