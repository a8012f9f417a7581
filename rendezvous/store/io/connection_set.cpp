// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/connection_set.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "proto/state_machine.h"
#include "proto/text.h"
#include "rendezvous/io/random_bytes.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

namespace {

Result<OpenPort> port_of(const ListenOptions& options) {
  if (!options.adopted.empty()) return adopt_port(options.adopted, options.hosts);
  if (options.passed >= 0) return take_port(FileDescriptor(options.passed));
  return options.hosts.empty() ? open_port(options.host, options.port)
                               : open_port(options.hosts, options.port);
}

// Marks the descriptor with which the set wakes its driver.
constexpr std::uint64_t wake_mark = ~std::uint64_t{0};
// Marks the descriptor that watches the doors: a connection is waiting there.
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

// Store clients and unidentified connections for which there are descriptors below the first
// reserved one, besides those already open. `spare` is the newest of those.
std::size_t clients_that_fit(int kept_from, int spare) {
  return static_cast<std::size_t>(std::max(1, kept_from - spare - 1));
}

}  // namespace

ConnectionSet::ConnectionSet(const ConnectionLimits& limits)
    : accounting_(std::make_shared<MemoryAccounting>(limits.memory, random_seed())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      doors_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      spare_(open_spare()),
      kept_for_links_from_(limits.keeps_descriptors_for_links ? first_descriptor_for_links()
                                                              : std::numeric_limits<int>::max()),
      clients_max_(clients_that_fit(kept_for_links_from_, spare_.get())),
      share_of_doors_(static_cast<std::ptrdiff_t>(limits.work_per_turn / 4)),
      sessions_(limits_of_sessions(limits), accounting_) {
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

// Hosts are not notified: their owner decides in which order things end.
ConnectionSet::~ConnectionSet() {
  for (const int socket : sessions_.sockets()) FileDescriptor closing(socket);
}

void ConnectionSet::shut_down() {
  for (Port& port : ports_) {
    port.open.file = {};  // as in stop_accepting()
    if (port.open.is_passed) continue;
    for (const FileDescriptor& socket : port.open.sockets) ::shutdown(socket.get(), SHUT_RDWR);
  }
  for (const int socket : sessions_.sockets()) ::shutdown(socket, SHUT_RDWR);
  for (const auto& stream : streams_) {
    if (stream != nullptr) stream->closed();
  }
}

// Ports are opened before another thread uses this object. Other descriptors of this process may
// have the same address, for instance the caller's own duplicate of a socket that was passed.
void ConnectionSet::close_copies() const {
  for (const Port& port : ports_) {
    for (const FileDescriptor& socket : port.open.sockets) ::close(socket.get());
  }
  accepted_.each([](int fd) { ::close(fd); });
  for (const FileDescriptor* each : {&epoll_, &doors_, &wake_}) ::close(each->get());
}

// --- ports -------------------------------------------------------------------------------------

Result<Listening> ConnectionSet::listen(StoreHost& host, const ListenOptions& options) {
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

void ConnectionSet::stop_listening(ListenerId listener, const std::string& reason) {
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

void ConnectionSet::stop_accepting(ListenerId listener) {
  Port& port = ports_.at(listener.value);
  port.open.file = {};  // first: a path at which nothing listens may be replaced by others
  if (!port.open.is_passed) {
    for (const FileDescriptor& socket : port.open.sockets) ::shutdown(socket.get(), SHUT_RDWR);
  }
  if (!port.is_resting) unwatch(port);
  port_sockets_ -= port.open.sockets.size();
  port.open.sockets.clear();
}

void ConnectionSet::close_clients(ListenerId listener, const std::string& reason) {
  (void)sessions_.close_clients(listener.value, reason);  // each has a line of its own
  if (sessions_.has_doomed()) wake();
}

// The driver may have no other reason to call serve().
void ConnectionSet::wake() {
  if (std::exchange(is_woken_, true)) return;
  const std::uint64_t one = 1;
  // No other code writes this eventfd, so this cannot fail.
  (void)!::write(wake_.get(), &one, sizeof one);
}

void ConnectionSet::close_doomed() {
  while (sessions_.close_next()) perform();
  if (!is_woken_ || sessions_.has_doomed()) return;
  std::uint64_t count = 0;
  (void)!::read(wake_.get(), &count, sizeof count);
  is_woken_ = false;
}

// --- one turn -----------------------------------------------------------------------------------

bool ConnectionSet::serve(TimePoint now) {
  now_ = now;
  sessions_.begin_turn(now);
  with_memory({}, [] {});  // retries what the last turn had no memory for
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
  // One part of a long list may use up a turn; then the next turn serves the others first.
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

// What this turn has no time for comes first in the next one.
void ConnectionSet::serve_events() {
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

void ConnectionSet::handle(const epoll_event& event) {
  if (event.data.u64 == wake_mark) return;  // close_doomed() handles it
  if (event.data.u64 == doors_mark) return serve_doors();
  const ConnectionId id{event.data.u64};
  if ((event.events & EPOLLOUT) != 0) {
    sessions_.writable(id);
    perform();
  }
  if ((event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) == 0) return;
  if (!sessions_.is_paused(id)) return read(id);
  // Nothing is read from a paused connection, but these two are reported all the same.
  if ((event.events & (EPOLLHUP | EPOLLERR)) != 0) {
    sessions_.close(id, "disconnected with unread replies", true);
  }
}

std::optional<TimePoint> ConnectionSet::next_deadline() const {
  const std::optional<TimePoint> next = sessions_.next_deadline();
  if (rests_.empty()) return next;
  return next ? std::min(*next, rests_.front().until) : rests_.front().until;
}

void ConnectionSet::end_rests() {
  for (; !rests_.empty() && rests_.front().until <= now_; rests_.pop_front()) {
    const std::uint32_t number = rests_.front().port;
    Port& port = ports_[number];
    port.is_resting = port.host != nullptr && !watch(port, number);
    if (port.is_resting) rests_.push_back({now_ + bounds::store_accept_rest, number});
  }
}

// How connections begin: the doors. Listening ports and unidentified connections are watched apart
// from the store's clients. They are served first in a turn, within a share of its work, so that an
// agent never waits for the requests of clients.

namespace {

// Marks an event of a listening socket; the other bits are the port's number. Connection ids never
// become that large.
constexpr std::uint64_t port_mark = std::uint64_t{1} << 63;

bool is_lack_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Another owner has shut the socket down.
bool is_end_of_listening(int error) {
  return error == EINVAL || error == EBADF || error == ENOTSOCK;
}

// Another owner of a passed socket may have made it blocking.
int accept_at(int listening, bool is_passed, sockaddr_storage& address, int flags) {
  pollfd waiting{listening, POLLIN, 0};
  if (is_passed && ::poll(&waiting, 1, 0) <= 0) {
    errno = EAGAIN;
    return -1;
  }
  socklen_t size = sizeof address;
  return ::accept4(listening, reinterpret_cast<sockaddr*>(&address), &size, flags);
}

}  // namespace

int ConnectionSet::open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// Connections that are left at a door are seen again in the next turn.
void ConnectionSet::serve_doors() {
  std::array<epoll_event, 64> events;
  work_after_doors_ = sessions_.work_left() - share_of_doors_;
  const int count = epoll_wait(doors_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int at = 0; at < count && sessions_.work_left() > work_after_doors_; ++at) {
    const std::uint64_t who = events[static_cast<std::size_t>(at)].data.u64;
    const bool is_port = (who & port_mark) != 0;
    with_memory(ConnectionId{is_port ? 0 : who}, [&] {
      if (is_port) return accept_some(static_cast<std::uint32_t>(who & ~port_mark));
      read(ConnectionId{who});
    });
  }
}

// It is a client from now on, and waits with the others.
bool ConnectionSet::pass_door(int fd, ConnectionId id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id.value;
  (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, fd, nullptr);
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool ConnectionSet::watch(Port& port, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = port_mark | number;
  return std::ranges::all_of(port.open.sockets, [&](const FileDescriptor& socket) {
    return epoll_ctl(doors_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0;
  });
}

void ConnectionSet::unwatch(Port& port) {
  for (const FileDescriptor& socket : port.open.sockets) {
    // It was watched, so this cannot fail.
    (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  }
}

void ConnectionSet::accept_some(std::uint32_t number) {
  Port& port = ports_[number];
  for (std::size_t at = 0; at < port.open.sockets.size(); ++at) {
    const int listening = port.open.sockets[at].get();
    while (sessions_.work_left() > work_after_doors_) {
      sockaddr_storage address{};
      const int fd =
          accept_at(listening, port.open.is_passed, address, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        open_connection(fd, peer_of(address), number);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (is_end_of_listening(errno)) return stop_accepting_at(port, at, errno);
      if (!is_lack_of_resources(errno)) {  // that client left while it was queued
        sessions_.spend(bounds::store_work_of_connection);
        continue;
      }
      const int error = errno;
      if (make_room() || refuse_for_lack(port, listening, error)) continue;
      unwatch(port);
      port.is_resting = true;
      rests_.push_back({now_ + bounds::store_accept_rest, number});
      return;
    }
  }
}

void ConnectionSet::stop_accepting_at(Port& port, std::size_t socket, int error) {
  const auto place = port.open.sockets.begin() + static_cast<std::ptrdiff_t>(socket);
  // Closing alone would leave it watched, as another owner has it open.
  (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, place->get(), nullptr);
  port.open.sockets.erase(place);
  --port_sockets_;
  port.host->note(
      {.ordinary = false,
       .peer = std::nullopt,
       .text = fmt::format("stopped accepting on {}: {}", port.open.address, errno_text(error)),
       .level = LogLevel::warning});
}

bool ConnectionSet::make_room(ConnectionId newest) {
  const bool had_silent = sessions_.close_silent(
      "idle, and its file descriptor is needed for others (raise ulimit -Hn)", newest);
  perform();
  return had_silent;
}

// Decides by the number of connections, and also by descriptor numbers, in case other descriptors
// of this process have used up what was expected. A lower number may have become free meanwhile.
bool ConnectionSet::is_kept_for_links(int fd) const {
  if (socket_count() + port_sockets_ > clients_max_) return true;
  if (fd < kept_for_links_from_) return false;
  const FileDescriptor lowest(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return !lowest || lowest.get() >= kept_for_links_from_;
}

// Accepts the next queued client with the spare descriptor and closes it. If it stayed in the
// queue, the port would stay readable forever and the loop would spin. Returns false if even that
// fails.
bool ConnectionSet::refuse_for_lack(Port& port, int listening, int error) {
  spare_.reset();
  sockaddr_storage address{};
  FileDescriptor refused(accept_at(listening, port.open.is_passed, address, SOCK_CLOEXEC));
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

void ConnectionSet::open_connection(int fd, const PeerAddress& peer, std::uint32_t number) {
  FileDescriptor socket(fd);
  accepted_.reserve(fd);
  sessions_.spend(bounds::store_work_of_connection);
  Port& port = ports_[number];
  // A silent connection from this address must not keep out one with something to say.
  if (const std::string objection = accounting_->objection_to_connection(peer);
      !objection.empty()) {
    if (!sessions_.close_silent_of(
            peer, "idle, and its address needs the connection for another client")) {
      return port.host->note({.peer = peer, .text = "refused: " + objection});
    }
    perform();
  }
  const ConnectionId id = sessions_.open(fd, peer, number, port.dialect);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id.value;
  if (epoll_ctl(doors_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    const std::string why = errno_text(errno);
    sessions_.take_back(id);
    return port.host->note({.peer = peer, .text = "refused: " + why});
  }
  (void)socket.release();  // owned by the session now
  accepted_.add(fd);
  if (is_kept_for_links(fd)) make_room(id);
}

// How bytes are read and written, and what else StoreSessions decides about sockets.

namespace {

constexpr std::size_t written_pieces_max = 64;

bool is_departure(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

bool is_full_or_empty(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

std::size_t total_size(std::span<const std::string_view> pieces) {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

ssize_t write_all_of(int socket, std::span<const std::string_view> pieces) {
  if (pieces.size() == 1) {
    return ::send(socket, pieces[0].data(), pieces[0].size(), MSG_NOSIGNAL);
  }
  std::array<iovec, written_pieces_max> places;
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    // sendmsg only reads them, although its type does not say so.
    places[at] = {const_cast<char*>(pieces[at].data()), pieces[at].size()};
  }
  msghdr message{};
  message.msg_iov = places.data();
  // Its width depends on the C library.
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(pieces.size());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

void ConnectionSet::read(ConnectionId id) {
  const std::span<char> room = sessions_.room(id);
  if (room.empty()) return;
  const ssize_t count = ::recv(sessions_.socket_of(id), room.data(), room.size(), 0);
  if (count > 0) return sessions_.received(id, static_cast<std::size_t>(count));
  if (count == 0) return sessions_.close(id, "disconnected", true);
  if (is_full_or_empty(errno)) return;
  const int error = errno;
  sessions_.close(id, errno_text(error), is_departure(error));
}

void ConnectionSet::perform() {
  while (std::optional<SessionAction> action = sessions_.next_action()) {
    std::visit([this](auto& what) { on(what); }, *action);
  }
}

void ConnectionSet::on(const session::Write& write) {
  std::array<std::string_view, written_pieces_max> room;
  const std::span<const std::string_view> pieces = sessions_.pieces(write.to, room);
  if (pieces.empty()) return;  // it is gone
  if (StoreStream* const stream = stream_of(write.socket)) {
    const std::size_t count = write_to(*stream, pieces);
    sessions_.sent(write, count);
    // What was offered is not always all that there is. A stream that took less reports its room.
    const bool took_all = count == total_size(pieces);
    if (took_all && sessions_.awaits_room(write.to)) tell_stream(write.to, {.has_room = true});
    return;
  }
  const ssize_t count = write_all_of(write.socket, pieces);
  if (count >= 0) return sessions_.sent(write, static_cast<std::size_t>(count));
  const int error = errno;
  if (is_full_or_empty(error)) return sessions_.sent(write, 0);
  sessions_.close(write.to, errno_text(error), is_departure(error));
}

void ConnectionSet::on(const session::Watch& watch) {
  // A stream reports when it has room. What it has said meanwhile is looked at again.
  if (stream_of(watch.socket) != nullptr) {
    if (watch.for_bytes) tell_stream(watch.id, {.has_bytes = true});
    return;
  }
  epoll_event event{};
  event.events = (watch.for_bytes ? static_cast<unsigned>(EPOLLIN) : 0U) |
                 (watch.for_room ? static_cast<unsigned>(EPOLLOUT) : 0U);
  event.data.u64 = watch.id.value;
  // The descriptor is open and was added, so this cannot fail.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watch.socket, &event);
}

void ConnectionSet::on(const session::Admit& admit) {
  StoreHost* const host = ports_[admit.port].host;
  if (host == nullptr) return;
  if (stream_of(admit.socket) != nullptr) return admit_stream(admit, *host);
  if (is_kept_for_links(admit.socket)) {
    return sessions_.close(
        admit.id,
        "the last free file descriptors are reserved for agents; raise the limit of open files "
        "(ulimit -Hn)");
  }
  // The host may close clients, for instance because a new round begins.
  const Result<void> admitted = host->admit(admit.peer);
  if (!sessions_.is_heard(admit.id)) return;
  if (!admitted) return sessions_.close(admit.id, admitted.error().reason);
  if (pass_door(admit.socket, admit.id)) return sessions_.admit(admit.id);
  const std::string why = errno_text(errno);
  sessions_.close(admit.id, why);
}

void ConnectionSet::on(session::HandOver& hand_over) {
  if (stream_of(hand_over.socket) != nullptr) return release_stream(hand_over.socket);
  FileDescriptor socket(hand_over.socket);
  accepted_.remove(hand_over.socket);
  (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  StoreHost* const host = ports_[hand_over.port].host;
  if (host == nullptr) return;
  if (hand_over.speaks == Protocol::http) {
    return host->adopt_http(std::move(socket), hand_over.peer, std::move(hand_over.first_bytes));
  }
  if (hand_over.speaks == Protocol::secure) {
    return host->adopt_secure(std::move(socket), hand_over.peer, std::move(hand_over.first_bytes));
  }
  host->adopt_link(std::move(socket), hand_over.peer, std::move(hand_over.first_bytes));
}

void ConnectionSet::on(const session::Close& close) {
  if (stream_of(close.socket) != nullptr) {
    release_stream(close.socket);
  } else {
    const FileDescriptor socket(close.socket);
    accepted_.remove(close.socket);
    // Closing alone would leave it watched as long as a forked child holds a copy.
    (void)epoll_ctl(close.was_client ? epoll_.get() : doors_.get(), EPOLL_CTL_DEL, socket.get(),
                    nullptr);
  }
  Port& port = ports_[close.port];
  if (port.host == nullptr) {
    --port.left;
    return;  // its port was closed, and one note was written for all of them
  }
  port.host->note(
      {.ordinary = close.is_ordinary, .peer = close.peer, .text = "closed: " + close.reason});
}

// Clients without a socket: their bytes come through an agent's link. StoreSessions treats them
// like all others; their numbers are below every descriptor's. Within a turn they come after the
// sockets, and use the same work.

namespace {

// -1 is never a descriptor, so these begin below it.
constexpr int first_stream = -2;

std::size_t place_of(int socket) {
  return static_cast<std::size_t>(first_stream - socket);
}

int number_of(std::size_t place) {
  return first_stream - static_cast<int>(place);
}

}  // namespace

StoreStream* ConnectionSet::stream_of(int socket) {
  return socket > first_stream ? nullptr : streams_.at(place_of(socket)).get();
}

Result<ConnectionId> ConnectionSet::open_own_stream(ListenerId listener,
                                                    std::shared_ptr<StoreStream> stream) {
  if (ports_.at(listener.value).host == nullptr) return failure("the store is closed");
  const ConnectionId id = add_stream(listener, {}, std::move(stream));
  sessions_.exempt(id);
  return id;
}

Result<ConnectionId> ConnectionSet::open_stream(ListenerId listener, const PeerAddress& peer,
                                                std::shared_ptr<StoreStream> stream) {
  Port& port = ports_.at(listener.value);
  if (port.host == nullptr) return failure("the store is closed");
  if (const std::string objection = accounting_->objection_to_connection(peer);
      !objection.empty()) {
    port.host->note({.peer = peer, .text = "refused: " + objection});
    return failure(objection);
  }
  return add_stream(listener, peer, std::move(stream));
}

ConnectionId ConnectionSet::add_stream(ListenerId listener, const PeerAddress& peer,
                                       std::shared_ptr<StoreStream> stream) {
  if (free_streams_.empty()) {
    free_streams_.reserve(streams_.size() + 1);  // so that releasing one needs no memory
    free_streams_.push_back(streams_.size());
    streams_.emplace_back();
  }
  const std::size_t place = free_streams_.back();
  const ConnectionId id =
      sessions_.open(number_of(place), peer, listener.value, ports_.at(listener.value).dialect);
  free_streams_.pop_back();
  streams_[place] = std::move(stream);
  return id;
}

std::vector<int> ConnectionSet::sockets_of(ListenerId listener) const {
  std::vector<int> sockets;
  for (const FileDescriptor& each : ports_.at(listener.value).open.sockets) {
    sockets.push_back(each.get());
  }
  return sockets;
}

Result<ConnectionId> ConnectionSet::adopt(ListenerId listener, int socket, const PeerAddress& peer,
                                          std::uint64_t conversation) {
  FileDescriptor owned(socket);
  accepted_.reserve(socket);
  const ConnectionId id =
      sessions_.open(socket, peer, listener.value, ports_.at(listener.value).dialect);
  sessions_.restore(id, conversation, {}, {});
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id.value;
  const FileDescriptor& watcher = sessions_.is_client(id) ? epoll_ : doors_;
  if (epoll_ctl(watcher.get(), EPOLL_CTL_ADD, socket, &event) != 0) {
    sessions_.take_back(id);
    return failure(errno_text(errno));
  }
  (void)owned.release();  // owned by the session now
  accepted_.add(socket);
  return id;
}

void ConnectionSet::release_stream(int socket) {
  const std::size_t place = place_of(socket);
  const auto stream = std::exchange(streams_.at(place), nullptr);
  free_streams_.push_back(place);
  stream->closed();
}

void ConnectionSet::serve_streams(TimePoint now) {
  now_ = now;
  const std::optional<TimePoint> deadline = sessions_.next_deadline();
  sessions_.begin_turn(now);
  // If other clients are queued, these wait behind them.
  if (!sessions_.is_busy() && !sessions_.has_undecided()) {
    serve_told_streams();
    with_memory({}, [this] {
      while (sessions_.send_next()) perform();
    });
  }
  // The driver asks for the next deadline only after serve().
  const std::optional<TimePoint> next = sessions_.next_deadline();
  const bool is_sooner = next && (!deadline || *next < *deadline);
  if (!told_streams_.empty() || sessions_.has_more() || is_sooner) wake();
}

bool ConnectionSet::with_sessions(const std::function<void(StoreSessions&)>& step) {
  bool is_done = false;
  with_memory({}, [&] {
    step(sessions_);
    perform();
    while (sessions_.send_any()) perform();
    is_done = true;
  });
  wake();
  return is_done;
}

void ConnectionSet::serve_told_streams() {
  std::erase_if(told_later_, [this](const ToldStream& told) {
    const bool is_due = !sessions_.is_replayed(told.id);
    if (is_due) told_streams_.push_back(told);
    return is_due;
  });
  // A stream with more is handled again in the next turn.
  for (std::size_t left = told_streams_.size();
       left > 0 && sessions_.work_left() > 0 && !sessions_.is_busy(); --left) {
    const ToldStream told = std::move(told_streams_.front());
    told_streams_.pop_front();
    with_memory(told.id, [&] { hear_stream(told); });
  }
}

void ConnectionSet::hear_stream(const ToldStream& told) {
  if (!sessions_.is_heard(told.id)) return;
  // The clients of its port are being shown: nothing may change meanwhile.
  if (sessions_.is_held(told.id)) return told_streams_.push_back(told);
  if (!told.news.reason.empty()) return sessions_.close(told.id, told.news.reason);
  if (told.news.has_room) {
    sessions_.writable(told.id);
    perform();
  }
  if (!sessions_.is_heard(told.id)) return;
  if (told.news.has_bytes && !sessions_.is_paused(told.id)) {
    StoreStream& stream = *stream_of(sessions_.socket_of(told.id));
    const std::span<char> room = sessions_.room(told.id);
    if (room.empty()) {
      // Its earlier requests are decided first, or by another process.
      if (sessions_.is_replayed(told.id)) {
        told_later_.push_back(told);
      } else if (sessions_.is_heard(told.id)) {
        told_streams_.push_back({told.id, told.news});
      }
      return;
    }
    const std::size_t count = stream.read(room);
    if (count > 0) sessions_.received(told.id, count);
    if (count == room.size()) tell_stream(told.id, {.has_bytes = true});
    perform();
  }
  if (told.news.is_over && sessions_.is_heard(told.id)) {
    sessions_.close(told.id, "disconnected", true);
  }
}

std::size_t ConnectionSet::write_to(StoreStream& stream, std::span<const std::string_view> pieces) {
  std::size_t written = 0;
  for (const std::string_view piece : pieces) {
    const std::size_t count = stream.write(piece);
    written += count;
    if (count < piece.size()) break;
  }
  return written;
}

// The agent that brought it was admitted with its link.
void ConnectionSet::admit_stream(const session::Admit& admit, StoreHost& host) {
  const Result<void> admitted = host.admit_stream(admit.peer);
  if (!sessions_.is_heard(admit.id)) return;
  if (!admitted) return sessions_.close(admit.id, admitted.error().reason);
  sessions_.admit(admit.id);
}

}  // namespace cpprun
