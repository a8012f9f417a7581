// SPDX-License-Identifier: BSD-3-Clause
// How what the store decides becomes bytes, and leaves. The replies to one client's requests leave
// in one write; a large value leaves from where it lies, a slice in each turn.

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "proto/c10d/encoder.h"
#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

// Of the memory that gathered replies, what is kept for the next ones.
constexpr std::size_t replies_kept_max = 1024 * 1024;
// Taken from one outbox at once. The kernel copies that much in a fraction of a millisecond.
constexpr std::size_t sent_bytes_max = 1024 * 1024;
constexpr std::size_t sent_pieces_max = 64;

bool is_departure(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

bool is_full(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

// --- actions -------------------------------------------------------------------------------------

void ConnectionSet::Impl::perform(const Actions& actions) {
  for (const Action& action : actions) {
    if (const auto* answer = std::get_if<Answer>(&action)) {
      deliver(*answer);
    } else if (const auto* parcel = std::get_if<Parcel>(&action)) {
      deliver(*parcel);
    } else if (const auto* drop = std::get_if<Drop>(&action)) {
      end(drop->connection, drop->reason);
    }
  }
}

void ConnectionSet::Impl::refuse_huge_reply(ConnectionId to) {
  end(to, fmt::format("asked for a reply of more than {} bytes", bounds::store_reply_bytes_max));
}

// Only the connection that is being served can be answered at once; the others get what is theirs
// in their turn, so that a key for which thousands wait holds nobody up.
void ConnectionSet::Impl::deliver(const Answer& answer) {
  const bool may_be_huge = std::holds_alternative<c10d::Values>(answer.reply) ||
                           std::holds_alternative<c10d::Keys>(answer.reply);
  if (may_be_huge && c10d::encoded_size(answer.reply) > bounds::store_reply_bytes_max) {
    return refuse_huge_reply(answer.to);
  }
  if (answer.to == served_) return c10d::encode(answer.reply, replies_);
  Connection* connection = heard(answer.to);
  if (connection == nullptr) return;
  encoded_.clear();
  c10d::encode(answer.reply, encoded_);
  outbox_of(*connection).append(encoded_);
  queue_to_send(*connection);
}

void ConnectionSet::Impl::deliver(const Parcel& parcel) {
  if (parcel.reply.size() > bounds::store_reply_bytes_max) return refuse_huge_reply(parcel.to);
  Connection* connection = heard(parcel.to);
  if (connection == nullptr) return;
  spend(parcel.reply.copied.size() + parcel.reply.shared.size() * bounds::store_work_of_request);
  Outbox& outbox = outbox_of(*connection);
  if (parcel.to != served_) {
    outbox.append(parcel.reply);
    return queue_to_send(*connection);
  }
  outbox.append(replies_);  // what was answered before it
  replies_.clear();
  outbox.append(parcel.reply);
}

Outbox& ConnectionSet::Impl::outbox_of(Connection& connection) {
  Backlog& backlog = backlog_of(connection);
  if (backlog.outbox.empty()) backlog.last_taken = now_;
  return backlog.outbox;
}

void ConnectionSet::Impl::queue_to_send(Connection& connection) {
  if (std::exchange(connection.is_queued_to_send, true)) return;
  to_send_.push_back(connection.id);
}

// --- out ---------------------------------------------------------------------------------------

bool ConnectionSet::Impl::flush_replies(Connection& connection) {
  bool is_there = true;
  if (!replies_.empty()) {
    is_there = send(connection, replies_);
    replies_.clear();
    // One large reply is no reason to keep its memory.
    if (replies_.capacity() > replies_kept_max) replies_ = {};
  } else if (connection.backlog != nullptr && !connection.backlog->outbox.empty() &&
             !connection.awaits_writable) {
    is_there = send_outbox(connection);
  }
  if (!is_there || connection.backlog == nullptr) return is_there;
  if (!connection.is_paused && connection.backlog->outbox.size() > limits_.outbox_bytes_max) {
    pause(connection);
  }
  return settle(connection);
}

bool ConnectionSet::Impl::send(Connection& connection, std::string_view bytes) {
  if (connection.backlog == nullptr || connection.backlog->outbox.empty()) {
    const ssize_t count = ::send(connection.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) spend(static_cast<std::size_t>(count));
    if (count == static_cast<ssize_t>(bytes.size())) return true;
    if (count < 0 && !is_full(errno)) {
      close(connection, errno_text(errno), is_departure(errno));
      return false;
    }
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    outbox_of(connection).append(bytes);
    connection.awaits_writable = true;
    update_interest(connection);
    return true;
  }
  connection.backlog->outbox.append(bytes);
  return connection.awaits_writable || send_outbox(connection);
}

bool ConnectionSet::Impl::send_outbox(Connection& connection) {
  Backlog& backlog = *connection.backlog;
  std::array<iovec, sent_pieces_max> room;
  const std::span<iovec> pieces = backlog.outbox.next(room, sent_bytes_max);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  const ssize_t count = ::sendmsg(connection.fd, &message, MSG_NOSIGNAL);
  if (count < 0 && !is_full(errno)) {
    close(connection, errno_text(errno), is_departure(errno));
    return false;
  }
  if (count > 0) {
    spend(static_cast<std::size_t>(count));
    backlog.last_taken = now_;
    backlog.outbox.drop_front(static_cast<std::size_t>(count));
  }
  if (connection.awaits_writable == backlog.outbox.empty()) {
    connection.awaits_writable = !connection.awaits_writable;
    update_interest(connection);
  }
  drop_empty_backlog(connection);
  return true;
}

void ConnectionSet::Impl::on_writable(Connection& connection) {
  if (connection.backlog == nullptr || connection.backlog->outbox.empty()) return;
  if (!send_outbox(connection)) return;
  if (connection.backlog != nullptr && !settle(connection)) return;
  if (!connection.is_paused) return;
  if (connection.backlog != nullptr &&
      connection.backlog->outbox.size() > limits_.outbox_bytes_max / 2) {
    return;
  }
  connection.is_paused = false;
  update_interest(connection);
  if (!connection.awaits_turn) digest_inbox(connection, false);
}

void ConnectionSet::Impl::flush_queued() {
  for (std::size_t count = 0;
       count < limits_.wakes_per_slice && work_left_ > 0 && !to_send_.empty(); ++count) {
    const ConnectionId id = to_send_.front();
    to_send_.pop_front();
    with_memory(id, [&] {
      Connection* connection = heard(id);
      if (connection != nullptr) flush_one(*connection);
    });
  }
}

void ConnectionSet::Impl::flush_one(Connection& connection) {
  connection.is_queued_to_send = false;
  if (connection.backlog == nullptr || connection.backlog->outbox.empty()) {
    drop_empty_backlog(connection);
    return;
  }
  if (!connection.awaits_writable && !send_outbox(connection)) return;
  if (connection.backlog == nullptr || !settle(connection)) return;
  // What others cause to be sent to it cannot be held back by leaving its requests alone.
  const std::size_t outbox_max =
      connection.is_paused ? bounds::store_reply_bytes_max : limits_.outbox_bytes_max;
  const std::size_t waiting = connection.backlog->outbox.size();
  if (waiting > outbox_max) {
    close(connection, fmt::format("takes none of the {} bytes that wait for it", waiting));
  }
}

void ConnectionSet::Impl::pause(Connection& connection) {
  connection.is_paused = true;
  update_interest(connection);
  // One timer is enough, however often a slow reader is paused: it looks at when bytes were taken.
  if (!std::exchange(connection.is_timed, true)) {
    arm(TimerKind::stall, connection.id.value, limits_.reader_stall_max);
  }
}

// --- memory ------------------------------------------------------------------------------------

Backlog& ConnectionSet::Impl::backlog_of(Connection& connection) {
  if (connection.backlog == nullptr) connection.backlog = std::make_unique<Backlog>();
  return *connection.backlog;
}

void ConnectionSet::Impl::drop_empty_backlog(Connection& connection) {
  if (connection.backlog == nullptr || !connection.backlog->inbox.empty() ||
      !connection.backlog->outbox.empty() || connection.backlog->listing != nullptr) {
    return;
  }
  ledger_->credit(connection.account, connection.backlog->bytes_charged);
  connection.backlog.reset();
}

// What waits in either direction is entered in the books. False: that was too much, and it is
// closed.
bool ConnectionSet::Impl::settle(Connection& connection) {
  Backlog& backlog = *connection.backlog;
  const std::size_t held = backlog.inbox.size() + backlog.outbox.own_bytes() +
                           (backlog.listing ? backlog.listing->bytes.size() : 0);
  const std::size_t before = std::exchange(backlog.bytes_charged, held);
  if (held <= before) {
    ledger_->credit(connection.account, before - held);
    return true;
  }
  const std::string objection = ledger_->objection(connection.account, held - before);
  ledger_->charge(connection.account, held - before);
  if (objection.empty()) return true;
  close(connection, objection);
  return false;
}

}  // namespace cpprun
