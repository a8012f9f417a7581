// SPDX-License-Identifier: BSD-3-Clause
// How bytes go in and out, and what else StoreSessions decides about sockets.

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <utility>

#include "proto/machine.h"
#include "proto/text.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

constexpr std::size_t written_pieces_max = 64;

bool is_departure(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

bool is_full_or_empty(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

ssize_t write_all_of(int socket, std::span<const std::string_view> pieces) {
  if (pieces.size() == 1) {
    return ::send(socket, pieces[0].data(), pieces[0].size(), MSG_NOSIGNAL);
  }
  std::array<iovec, written_pieces_max> places;
  for (std::size_t at = 0; at < pieces.size(); ++at) {
    // sendmsg only reads them, though its type does not say so.
    places[at] = {const_cast<char*>(pieces[at].data()), pieces[at].size()};
  }
  msghdr message{};
  message.msg_iov = places.data();
  // Its width differs from one C library to the other.
  message.msg_iovlen = static_cast<decltype(message.msg_iovlen)>(pieces.size());
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

}  // namespace

void ConnectionSet::Impl::read(ConnectionId id) {
  const std::span<char> room = sessions_.room(id);
  if (room.empty()) return;
  const ssize_t count = ::recv(sessions_.socket_of(id), room.data(), room.size(), 0);
  if (count > 0) return sessions_.received(id, static_cast<std::size_t>(count));
  if (count == 0) return sessions_.close(id, "the client left", true);
  if (is_full_or_empty(errno)) return;
  const int error = errno;
  sessions_.close(id, errno_text(error), is_departure(error));
}

void ConnectionSet::Impl::perform() {
  while (std::optional<SessionAction> action = sessions_.next_action()) {
    std::visit([this](auto& what) { on(what); }, *action);
  }
}

void ConnectionSet::Impl::on(const session::Write& write) {
  std::array<std::string_view, written_pieces_max> room;
  const std::span<const std::string_view> pieces = sessions_.pieces(write.to, room);
  if (pieces.empty()) return;  // it is gone
  if (StoreStream* const stream = stream_of(write.socket)) {
    return sessions_.sent(write, write_to(*stream, pieces));
  }
  const ssize_t count = write_all_of(write.socket, pieces);
  if (count >= 0) return sessions_.sent(write, static_cast<std::size_t>(count));
  const int error = errno;
  if (is_full_or_empty(error)) return sessions_.sent(write, 0);
  sessions_.close(write.to, errno_text(error), is_departure(error));
}

void ConnectionSet::Impl::on(const session::Watch& watch) {
  // A stream says itself when it takes bytes; what it has said meanwhile is looked at again.
  if (stream_of(watch.socket) != nullptr) {
    if (watch.for_bytes) tell_stream(watch.id, {.has_bytes = true});
    return;
  }
  epoll_event event{};
  event.events = (watch.for_bytes ? static_cast<unsigned>(EPOLLIN) : 0U) |
                 (watch.for_room ? static_cast<unsigned>(EPOLLOUT) : 0U);
  event.data.u64 = watch.id.value;
  // The descriptor is open and was added; there is nothing this could fail of.
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, watch.socket, &event);
}

void ConnectionSet::Impl::on(const session::Admit& admit) {
  StoreHost* const host = ports_[admit.port].host;
  if (host == nullptr) return;
  if (stream_of(admit.socket) != nullptr) return admit_stream(admit, *host);
  if (is_kept_for_links(admit.socket)) {
    return sessions_.close(
        admit.id,
        "the descriptors that are left are kept for agents; raise the limit of them (ulimit -Hn)");
  }
  // The host may close clients, for instance because a new round begins.
  const Result<void> admitted = host->admit(admit.peer);
  if (!sessions_.is_heard(admit.id)) return;
  if (!admitted) return sessions_.close(admit.id, admitted.error().reason);
  if (pass_door(admit.socket, admit.id)) return sessions_.admit(admit.id);
  const std::string why = errno_text(errno);
  sessions_.close(admit.id, why);
}

void ConnectionSet::Impl::on(session::HandOver& hand_over) {
  if (stream_of(hand_over.socket) != nullptr) return release_stream(hand_over.socket);
  FileDescriptor socket(hand_over.socket);
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

void ConnectionSet::Impl::on(const session::Close& close) {
  if (stream_of(close.socket) != nullptr) {
    release_stream(close.socket);
  } else {
    const FileDescriptor socket(close.socket);
    // Closing alone would leave it watched for as long as a forked child holds a copy.
    (void)epoll_ctl(close.was_client ? epoll_.get() : doors_.get(), EPOLL_CTL_DEL, socket.get(),
                    nullptr);
  }
  Port& port = ports_[close.port];
  if (port.host == nullptr) {
    --port.left;
    return;  // its port was closed, and that has been said of all of them
  }
  port.host->note(
      {.ordinary = close.is_ordinary, .peer = close.peer, .text = "closed: " + close.reason});
}

}  // namespace cpprun
