// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_set.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "proto/text.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

Result<OpenPort> port_of(const ListenOptions& options) {
  if (options.passed >= 0) return take_port(FileDescriptor(options.passed));
  return options.hosts.empty() ? open_port(options.host, options.port)
                               : open_port(options.hosts, options.port);
}

// Of the descriptor with which the set wakes its driver.
constexpr std::uint64_t wake_mark = ~std::uint64_t{0};
// Of what watches the doors: somebody is there.
constexpr std::uint64_t doors_mark = wake_mark - 1;

SessionLimits limits_of_sessions(const ConnectionLimits& limits) {
  return {.outbox_bytes_max = limits.outbox_bytes_max,
          .reader_stall_max = limits.reader_stall_max,
          .wakes_per_slice = limits.wakes_per_slice,
          .work_per_turn = limits.work_per_turn,
          .work_per_visit = limits.work_per_visit};
}

HashSeed random_seed() {
  return {random_word(), random_word()};
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
Result<ConnectionId> ConnectionSet::open_stream(ListenerId listener, const PeerAddress& peer,
                                                std::shared_ptr<StoreStream> stream) {
  return impl_->open_stream(listener, peer, std::move(stream));
}
void ConnectionSet::tell_stream(ConnectionId id, StreamNews news) {
  impl_->tell_stream(id, std::move(news));
}
bool ConnectionSet::with_sessions(const std::function<void(StoreSessions&)>& step) {
  return impl_->with_sessions(step);
}
void ConnectionSet::serve_streams(TimePoint now) {
  impl_->serve_streams(now);
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
void ConnectionSet::shut_down() {
  impl_->shut_down();
}
std::size_t ConnectionSet::connection_count() const {
  return impl_->connection_count();
}
const Ledger& ConnectionSet::ledger() const {
  return impl_->ledger();
}

std::shared_ptr<Ledger> ConnectionSet::shared_ledger() const {
  return impl_->shared_ledger();
}

ConnectionSet::Impl::Impl(const ConnectionLimits& limits)
    : ledger_(std::make_shared<Ledger>(limits.memory, random_seed())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      doors_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      spare_(open_spare()),
      kept_for_links_from_(limits.keeps_descriptors_for_links ? first_descriptor_for_links()
                                                              : std::numeric_limits<int>::max()),
      clients_max_(clients_that_fit(kept_for_links_from_, spare_.get())),
      share_of_doors_(static_cast<std::ptrdiff_t>(limits.work_per_turn / 4)),
      sessions_(limits_of_sessions(limits), ledger_) {
  const auto watched = [this](const FileDescriptor& descriptor, std::uint64_t mark) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = mark;
    return descriptor && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) == 0;
  };
  if (!epoll_ || !watched(wake_, wake_mark) || !watched(doors_, doors_mark)) {
    throw std::system_error(errno, std::generic_category(), "epoll");
  }
}

// Nobody is told any more: who owns the hosts decides in which order things end.
ConnectionSet::Impl::~Impl() {
  for (const int socket : sessions_.sockets()) FileDescriptor closing(socket);
}

void ConnectionSet::Impl::shut_down() {
  for (const Port& port : ports_) {
    for (const FileDescriptor& socket : port.open.sockets) ::shutdown(socket.get(), SHUT_RDWR);
  }
  for (const int socket : sessions_.sockets()) ::shutdown(socket, SHUT_RDWR);
}

// --- ports -------------------------------------------------------------------------------------

Result<Listening> ConnectionSet::Impl::listen(StoreHost& host, const ListenOptions& options) {
  Result<OpenPort> open = options.streams_only ? OpenPort{} : port_of(options);
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
  sessions_.open_port(
      number, [&host]() -> Store& { return host.store(); }, host.taken());
  return Listening{ListenerId{number}, port.open.port, port.open.address, port.open.hosts};
}

void ConnectionSet::Impl::stop_listening(ListenerId listener, const std::string& reason) {
  if (listener.value >= ports_.size() || ports_[listener.value].host == nullptr) return;
  Port& port = ports_[listener.value];
  port_sockets_ -= port.open.sockets.size();
  port.open.sockets.clear();
  StoreHost& host = *std::exchange(port.host, nullptr);
  port.left = sessions_.close_port(listener.value, reason);
  if (sessions_.has_doomed()) wake();
  if (port.left > 0) {
    host.note({.peer = {},
               .text = fmt::format("closed {} connection{}: {}", port.left,
                                   port.left == 1 ? "" : "s", reason)});
  }
}

void ConnectionSet::Impl::close_clients(ListenerId listener, const std::string& reason) {
  (void)sessions_.close_clients(listener.value, reason);  // each has a line of its own
  if (sessions_.has_doomed()) wake();
}

// Whoever drives us may have no other reason to call serve().
void ConnectionSet::Impl::wake() {
  if (std::exchange(is_woken_, true)) return;
  const std::uint64_t one = 1;
  // An eventfd that nobody else writes takes this for certain.
  (void)!::write(wake_.get(), &one, sizeof one);
}

void ConnectionSet::Impl::close_doomed() {
  while (sessions_.close_next()) perform();
  if (!is_woken_ || sessions_.has_doomed()) return;
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  is_woken_ = false;
}

// --- the loop's slice --------------------------------------------------------------------------

bool ConnectionSet::Impl::serve(TimePoint now) {
  now_ = now;
  sessions_.begin_turn(now);
  with_memory({}, [] {});  // what there was no memory for in the last one
  if (sessions_.is_busy() || sessions_.has_undecided()) serve_doors();
  bool was_busy = false;
  with_memory({}, [&] {
    was_busy = sessions_.go_on_with_stores();
    while (was_busy && sessions_.send_next()) perform();
  });
  if (was_busy) return true;
  with_memory({}, [&] { was_busy = sessions_.go_on_with_long(); });
  if (was_busy) return true;
  with_memory({}, [this] { close_doomed(); });
  // One part of a long list may take all of a turn: then the next one is the others'.
  if (sessions_.has_undecided() && std::exchange(events_are_first_, !events_are_first_)) {
    serve_events();
  }
  for (bool is_one = true; is_one;) {
    with_memory({}, [&] { is_one = sessions_.decide_next(); });
  }
  serve_events();
  serve_told_streams();
  with_memory({}, [this] {
    while (sessions_.send_next()) perform();
    while (sessions_.advance_next()) perform();
    end_rests();
  });
  return next_event_ < event_count_ || event_count_ == events_.size() || !told_streams_.empty() ||
         sessions_.has_more();
}

// What this turn has no time for is the first thing of the next one.
void ConnectionSet::Impl::serve_events() {
  if (next_event_ == event_count_) {
    const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
    event_count_ = count > 0 ? static_cast<std::size_t>(count) : 0;
    next_event_ = 0;
  }
  while (next_event_ < event_count_ && sessions_.work_left() > 0 && !sessions_.is_busy()) {
    const epoll_event event = events_[next_event_++];
    with_memory(ConnectionId{event.data.u64}, [&] { handle(event); });
  }
}

void ConnectionSet::Impl::handle(const epoll_event& event) {
  if (event.data.u64 == wake_mark) return;  // close_doomed() sees to it
  if (event.data.u64 == doors_mark) return serve_doors();
  const ConnectionId id{event.data.u64};
  if ((event.events & EPOLLOUT) != 0) {
    sessions_.writable(id);
    perform();
  }
  if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  if (!sessions_.is_paused(id)) return read(id);
  // Nothing is read from a paused connection; these two are reported all the same.
  if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
    sessions_.close(id, "left with replies unread", true);
  }
}

std::optional<TimePoint> ConnectionSet::Impl::next_deadline() const {
  const std::optional<TimePoint> next = sessions_.next_deadline();
  if (rests_.empty()) return next;
  return next ? std::min(*next, rests_.front().until) : rests_.front().until;
}

void ConnectionSet::Impl::end_rests() {
  for (; !rests_.empty() && rests_.front().until <= now_; rests_.pop_front()) {
    const std::uint32_t number = rests_.front().port;
    Port& port = ports_[number];
    port.is_resting = port.host != nullptr && !watch(port, number);
    if (port.is_resting) rests_.push_back({now_ + bounds::store_accept_rest, number});
  }
}

}  // namespace cpprun
