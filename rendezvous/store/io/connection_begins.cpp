// SPDX-License-Identifier: BSD-3-Clause
// How connections begin: the doors. Listening ports, and connections that have not said yet what
// they speak, are watched apart from the store's clients and served first in a turn, within a share
// of its work: an agent waits for nobody's requests, however long they take.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

// Marks an event of a listening socket; the rest of it is the port's number. Connection ids never
// grow that far.
constexpr std::uint64_t port_mark = std::uint64_t{1} << 63;

bool is_lack_of_resources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

int ConnectionSet::Impl::open_spare() {
  return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

// Whoever is left at a door is seen again in the next turn.
void ConnectionSet::Impl::serve_doors() {
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
bool ConnectionSet::Impl::pass_door(int fd, ConnectionId id) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id.value;
  (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, fd, nullptr);
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

bool ConnectionSet::Impl::watch(Port& port, std::uint64_t number) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = port_mark | number;
  return std::ranges::all_of(port.open.sockets, [&](const FileDescriptor& socket) {
    return epoll_ctl(doors_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0;
  });
}

void ConnectionSet::Impl::unwatch(Port& port) {
  for (const FileDescriptor& socket : port.open.sockets) {
    // It was watched, so this cannot fail.
    (void)epoll_ctl(doors_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  }
}

void ConnectionSet::Impl::accept_some(std::uint32_t number) {
  Port& port = ports_[number];
  for (std::size_t at = 0; at < port.open.sockets.size(); ++at) {
    const int listening = port.open.sockets[at].get();
    while (sessions_.work_left() > work_after_doors_) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int fd = accept4(listening, reinterpret_cast<sockaddr*>(&address), &size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        open_connection(fd, peer_of(address), number);
        continue;
      }
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      if (!is_lack_of_resources(errno)) continue;  // that client left while it stood in line
      const int error = errno;
      if (make_room() || refuse_for_lack(port, listening, error)) continue;
      unwatch(port);
      port.is_resting = true;
      rests_.push_back({now_ + bounds::store_accept_rest, number});
      return;
    }
  }
}

bool ConnectionSet::Impl::make_room(ConnectionId newest) {
  const bool had_silent = sessions_.close_silent(
      "it said nothing, and others need its descriptor (ulimit -Hn)", newest);
  perform();
  return had_silent;
}

// By how many there are, and by their numbers where other descriptors of this process have taken
// what was counted on. Some number below may have become free since that one was given.
bool ConnectionSet::Impl::is_kept_for_links(int fd) const {
  const std::size_t streams = streams_.size() - free_streams_.size();  // they have none
  if (sessions_.size() - streams + port_sockets_ > clients_max_) return true;
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

void ConnectionSet::Impl::open_connection(int fd, const PeerAddress& peer, std::uint32_t number) {
  FileDescriptor socket(fd);
  sessions_.spend(bounds::store_work_of_connection);
  Port& port = ports_[number];
  // Somebody there who has said nothing yet must not keep out whoever has something to say.
  if (const std::string objection = ledger_->objection_to_connection(peer); !objection.empty()) {
    if (!sessions_.close_silent_of(peer, "it said nothing, and others came from its address")) {
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
  (void)socket.release();  // the session's now
  if (is_kept_for_links(fd)) make_room(id);
}

}  // namespace cpprun
