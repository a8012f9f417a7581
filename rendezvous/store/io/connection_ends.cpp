// SPDX-License-Identifier: BSD-3-Clause
// How connections end: one by one, or all those of a port, a few in each turn.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "proto/bounds.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {

void ConnectionSet::Impl::stop_listening(ListenerId listener, const std::string& reason) {
  if (listener.value >= ports_.size() || ports_[listener.value].host == nullptr) return;
  Port& port = ports_[listener.value];
  port_sockets_ -= port.open.sockets.size();
  port.open.sockets.clear();
  StoreHost& host = *std::exchange(port.host, nullptr);
  port.left = doom(listener, reason, true);
  if (port.left > 0) {
    host.note({.peer = {},
               .text = fmt::format("closed {} connection{}: {}", port.left,
                                   port.left == 1 ? "" : "s", reason)});
  }
}

void ConnectionSet::Impl::close_clients(ListenerId listener, const std::string& reason) {
  (void)doom(listener, reason, false);  // each has a line of its own
}

std::size_t ConnectionSet::Impl::doom(ListenerId listener, const std::string& reason,
                                      bool with_strangers) {
  const auto shared_reason = std::make_shared<const std::string>(reason);
  std::size_t count = 0;
  for (Connection& connection : table_.slots()) {
    if (connection.id.value == 0 || connection.listener != listener.value) continue;
    if (!with_strangers && connection.speaks != Speaks::store) continue;
    ++count;
    if (std::exchange(connection.is_doomed, true)) continue;
    doomed_.push_back({connection.id, shared_reason});
  }
  const std::uint64_t one = 1;
  // An eventfd that nobody else writes takes this for certain.
  if (!doomed_.empty()) (void)!::write(wake_.get(), &one, sizeof one);
  return count;
}

// To close one takes the kernel longer than to serve one. Half of the work is left for the others.
void ConnectionSet::Impl::close_doomed() {
  if (doomed_.empty()) return;
  const auto half = static_cast<std::ptrdiff_t>(limits_.work_per_turn / 2);
  for (; !doomed_.empty() && work_left_ > half; doomed_.pop_front()) {
    Connection* connection = table_.find(doomed_.front().id);
    if (connection != nullptr) close(*connection, *doomed_.front().reason);
  }
  std::uint64_t count = 0;
  if (doomed_.empty()) (void)!::read(wake_.get(), &count, sizeof count);
}

// Null when nobody of that id is served any more.
Connection* ConnectionSet::Impl::heard(ConnectionId id) {
  Connection* connection = table_.find(id);
  return connection == nullptr || connection->is_doomed ? nullptr : connection;
}

FileDescriptor ConnectionSet::Impl::detach(Connection& connection) {
  FileDescriptor socket(connection.fd);
  // Closing alone would leave it watched for as long as a forked child holds a copy.
  const bool is_client = connection.speaks == Speaks::store;
  (void)epoll_ctl(is_client ? epoll_.get() : doors_.get(), EPOLL_CTL_DEL, socket.get(), nullptr);
  if (connection.backlog != nullptr) {
    ledger_->credit(connection.account, connection.backlog->bytes_charged);
    if (connection.backlog->inbox.capacity() > bounds::store_freed_at_once_max) {
      // As a chunk it is freed in pieces.
      const ByteBuffer::Memory memory = connection.backlog->inbox.release();
      Chunk(*ledger_, connection.account, memory.data, memory.end, memory.capacity);
    }
  }
  ledger_->close_connection(connection.account);
  table_.release(connection);
  return socket;
}

void ConnectionSet::Impl::close(Connection& connection, const std::string& reason, bool ordinary) {
  const ConnectionId id = connection.id;
  const PeerAddress peer = connection.peer;
  const std::uint32_t listener = connection.listener;
  StoreHost* const host = ports_[listener].host;
  const bool used_the_store = connection.speaks == Speaks::store;
  detach(connection).reset();
  spend(bounds::store_work_of_connection);
  if (host == nullptr) {
    --ports_[listener].left;
    return;  // its port was closed, and that has been said of all of them
  }
  if (used_the_store) forget(*host, listener, id);
  host->note({.ordinary = ordinary, .peer = peer, .text = "closed: " + reason});
}

void ConnectionSet::Impl::forget(StoreHost& host, std::uint32_t listener, ConnectionId id) {
  Actions left_behind;
  host.store().forget(id, left_behind);
  perform(left_behind);
  notice_unfinished(listener);
}

void ConnectionSet::Impl::hand_over(Connection& connection, std::string first_bytes) {
  StoreHost& host = host_of(connection);
  const PeerAddress peer = connection.peer;
  host.adopt_link(detach(connection), peer, std::move(first_bytes));
}

void ConnectionSet::Impl::notice_unfinished(std::uint32_t listener) {
  StoreHost* const host = ports_[listener].host;
  if (host == nullptr || !host->store().has_unfinished()) return;
  if (std::ranges::find(unfinished_, listener) == unfinished_.end()) {
    unfinished_.push_back(listener);
  }
}

}  // namespace cpprun
