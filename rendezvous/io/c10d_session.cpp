// How the bytes of a store client become requests, and decisions become bytes. Every whole request
// that is there is decided before anything is written; the replies leave in one write.

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/c10d/encoder.h"
#include "proto/machine.h"
#include "proto/sniff.h"
#include "rendezvous/io/connection_set_impl.h"
#include "rendezvous/io/socket_address.h"

namespace cpprun {
namespace {

// From an inbox of that size on, bytes are received straight into it.
constexpr std::size_t large_inbox = bounds::store_read_bytes;
// One sender of a large value does not hold the others up for longer than this takes to copy.
constexpr std::size_t large_read_max = 1024 * 1024;
// Of the memory that gathered replies, what is kept for the next ones.
constexpr std::size_t replies_kept_max = 1024 * 1024;

bool is_departure(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

}  // namespace

// --- in ----------------------------------------------------------------------------------------

void ConnectionSet::Impl::on_readable(Connection& connection) {
  Backlog* backlog = connection.backlog.get();
  const bool into_inbox = backlog != nullptr && backlog->inbox.size() >= large_inbox;
  char* const at = into_inbox ? backlog->inbox.tail(read_.size()) : read_.data();
  const std::size_t room =
      into_inbox ? std::min(backlog->inbox.tail_capacity(), large_read_max) : read_.size();
  const ssize_t count = ::recv(connection.fd, at, room, 0);
  if (count == 0) return close(connection, "the client left", true);
  if (count < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
    return close(connection, errno_text(errno), is_departure(errno));
  }
  const std::string_view received(at, static_cast<std::size_t>(count));
  if (backlog != nullptr && !backlog->inbox.empty()) {
    if (into_inbox) {
      backlog->inbox.grow_by(received.size());
    } else {
      backlog->inbox.append(received);
    }
    if (backlog->inbox.size() >= backlog->inbox_needed) digest_inbox(connection, false);
    return;
  }
  // The usual case: whole requests, which need no memory of their own.
  c10d::Progress progress;
  const Digested done = digest(connection, received, progress, false);
  if (done.is_gone || done.consumed == received.size()) return;
  Backlog& kept = backlog_of(connection);
  kept.inbox.append(received.substr(done.consumed));
  kept.inbox_needed = done.needed;
  kept.progress = progress;
}

void ConnectionSet::Impl::digest_inbox(Connection& connection, bool grace_over) {
  Backlog* backlog = connection.backlog.get();
  if (backlog == nullptr || backlog->inbox.empty()) return;
  // The requests point into these bytes, and may end the connection with all that is its own.
  ByteBuffer inbox;
  inbox.swap(backlog->inbox);
  c10d::Progress progress = backlog->progress;
  const Digested done = digest(connection, inbox.view(), progress, grace_over);
  if (done.is_gone) return;
  inbox.drop_front(done.consumed);
  Backlog& kept = backlog_of(connection);
  kept.inbox.swap(inbox);
  kept.inbox_needed = done.needed;
  kept.progress = progress;
  drop_empty_backlog(connection);
}

ConnectionSet::Impl::Digested ConnectionSet::Impl::digest(Connection& connection,
                                                          std::string_view bytes,
                                                          c10d::Progress& progress,
                                                          bool grace_over) {
  if (connection.speaks == Speaks::unknown_yet) {
    const Recognised recognised = recognise(connection, bytes);
    if (recognised == Recognised::gone) return {.is_gone = true};
    if (recognised == Recognised::not_yet) {
      // Whoever says nothing at all may stay: old clients open a second connection and keep it.
      if (connection.backlog == nullptr) {
        arm(TimerKind::greeting, connection.id.value, bounds::join_patience);
      }
      return {.needed = bytes.size() + 1};
    }
  }
  served_ = connection.id;
  connection.is_ambiguous = false;
  Digested done = decide(connection, bytes, progress, grace_over);
  if (!done.is_gone) done.is_gone = !flush_replies(connection);
  served_ = {};
  replies_.clear();
  return done;
}

ConnectionSet::Impl::Recognised ConnectionSet::Impl::recognise(Connection& connection,
                                                               std::string_view bytes) {
  const ConnectionId id = connection.id;
  switch (sniff(bytes)) {
    case Protocol::undecided:
      return Recognised::not_yet;
    case Protocol::link:
      hand_over(connection, std::string(bytes));
      return Recognised::gone;
    case Protocol::http:
    case Protocol::unknown:
      close(connection, fmt::format("{} on a port for store clients and agents", describe(bytes)));
      return Recognised::gone;
    case Protocol::store:
      break;
  }
  const Result<void> admitted = host_of(connection).admit(connection.peer);
  // The host may have closed clients, for instance because a new round begins.
  if (connection.id != id) return Recognised::gone;
  if (!admitted) {
    close(connection, admitted.error().reason);
    return Recognised::gone;
  }
  connection.speaks = Speaks::store;
  return Recognised::store;
}

ConnectionSet::Impl::Digested ConnectionSet::Impl::decide(Connection& connection,
                                                          std::string_view bytes,
                                                          c10d::Progress& progress,
                                                          bool grace_over) {
  const ConnectionId id = connection.id;
  Store& store = host_of(connection).store();
  Digested done;
  while (done.consumed < bytes.size() && !connection.is_paused) {
    const std::string_view rest = bytes.substr(done.consumed);
    const c10d::Decoded decoded =
        decoder_.decode(rest, connection.conversation, progress, grace_over);
    if (const auto* complete = std::get_if<c10d::Complete>(&decoded)) {
      effects_.clear();
      store.apply(id, complete->request, effects_);
      perform(effects_);
      if (connection.id != id) return {.is_gone = true};
      done.consumed += complete->size;
      grace_over = false;
      if (replies_.size() < bounds::store_gather_bytes) continue;
      if (!flush_replies(connection)) return {.is_gone = true};
    } else if (const auto* more = std::get_if<c10d::NeedMore>(&decoded)) {
      done.needed = more->size;
      break;
    } else if (const auto* malformed = std::get_if<c10d::Malformed>(&decoded)) {
      return refuse(connection, malformed->reason);
    } else {
      connection.is_ambiguous = true;
      arm(TimerKind::ambiguity, id.value, bounds::store_dialect_grace);
      done.needed = rest.size() + 1;
      break;
    }
  }
  return done;
}

void ConnectionSet::Impl::end(ConnectionId id, const std::string& reason) {
  Connection* connection = table_.find(id);
  if (connection == nullptr) return;
  if (id == served_) {
    (void)refuse(*connection, reason);
  } else {
    close(*connection, reason);
  }
}

// What was asked before the bad request is still answered.
ConnectionSet::Impl::Digested ConnectionSet::Impl::refuse(Connection& connection,
                                                          const std::string& reason) {
  if (flush_replies(connection)) close(connection, reason);
  return {.is_gone = true};
}

// --- effects -----------------------------------------------------------------------------------

void ConnectionSet::Impl::perform(const Effects& effects) {
  for (const Effect& effect : effects) {
    if (const auto* answer = std::get_if<Answer>(&effect)) {
      deliver(*answer);
    } else if (const auto* drop = std::get_if<Drop>(&effect)) {
      end(drop->connection, drop->reason);
    }
  }
}

// Only the connection that is being served can be answered at once; the others get what is theirs
// in their turn, so that a key for which thousands wait holds nobody up.
void ConnectionSet::Impl::deliver(const Answer& answer) {
  const bool may_be_huge = std::holds_alternative<c10d::Values>(answer.reply) ||
                           std::holds_alternative<c10d::Keys>(answer.reply);
  if (may_be_huge && c10d::encoded_size(answer.reply) > bounds::store_reply_bytes_max) {
    return end(answer.to, fmt::format("asked for a reply of more than {} bytes",
                                      bounds::store_reply_bytes_max));
  }
  if (answer.to == served_) return c10d::encode(answer.reply, replies_);
  Connection* connection = table_.find(answer.to);
  if (connection == nullptr) return;
  encoded_.clear();
  c10d::encode(answer.reply, encoded_);
  Backlog& backlog = backlog_of(*connection);
  if (backlog.outbox.empty()) backlog.last_taken = now_;
  backlog.outbox.append(encoded_);
  if (connection->is_queued_to_send) return;
  connection->is_queued_to_send = true;
  to_send_.push_back(connection->id);
}

// --- out ---------------------------------------------------------------------------------------

bool ConnectionSet::Impl::flush_replies(Connection& connection) {
  if (replies_.empty()) return true;
  const bool is_there = send(connection, replies_);
  replies_.clear();
  // One large reply is no reason to keep its memory.
  if (replies_.capacity() > replies_kept_max) replies_ = {};
  if (is_there && connection.backlog != nullptr && !connection.is_paused &&
      connection.backlog->outbox.size() > limits_.outbox_bytes_max) {
    pause(connection);
  }
  return is_there;
}

bool ConnectionSet::Impl::send(Connection& connection, std::string_view bytes) {
  if (connection.backlog == nullptr || connection.backlog->outbox.empty()) {
    const ssize_t count = ::send(connection.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count == static_cast<ssize_t>(bytes.size())) return true;
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      close(connection, errno_text(errno), is_departure(errno));
      return false;
    }
    if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
    Backlog& backlog = backlog_of(connection);
    backlog.last_taken = now_;
    backlog.outbox.append(bytes);
    connection.awaits_writable = true;
    update_interest(connection);
    return true;
  }
  connection.backlog->outbox.append(bytes);
  return connection.awaits_writable || send_outbox(connection);
}

bool ConnectionSet::Impl::send_outbox(Connection& connection) {
  Backlog& backlog = *connection.backlog;
  const std::string_view bytes = backlog.outbox.view();
  const ssize_t count = ::send(connection.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    close(connection, errno_text(errno), is_departure(errno));
    return false;
  }
  if (count > 0) {
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
  if (!send_outbox(connection) || !connection.is_paused) return;
  if (connection.backlog != nullptr &&
      connection.backlog->outbox.size() > limits_.outbox_bytes_max / 2) {
    return;
  }
  connection.is_paused = false;
  update_interest(connection);
  digest_inbox(connection, false);
}

void ConnectionSet::Impl::flush_queued() {
  for (std::size_t count = 0; count < limits_.wakes_per_slice && !to_send_.empty(); ++count) {
    Connection* connection = table_.find(to_send_.front());
    to_send_.pop_front();
    if (connection == nullptr) continue;
    connection->is_queued_to_send = false;
    if (connection->backlog == nullptr || connection->backlog->outbox.empty()) {
      drop_empty_backlog(*connection);
      continue;
    }
    if (!connection->awaits_writable && !send_outbox(*connection)) continue;
    // What others cause to be sent to it cannot be held back by leaving its requests alone.
    const std::size_t outbox_max =
        connection->is_paused ? bounds::store_reply_bytes_max : limits_.outbox_bytes_max;
    const Backlog* backlog = connection->backlog.get();
    if (backlog != nullptr && backlog->outbox.size() > outbox_max) {
      close(*connection,
            fmt::format("takes none of the {} bytes that wait for it", backlog->outbox.size()));
    }
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

Backlog& ConnectionSet::Impl::backlog_of(Connection& connection) {
  if (connection.backlog == nullptr) connection.backlog = std::make_unique<Backlog>();
  return *connection.backlog;
}

void ConnectionSet::Impl::drop_empty_backlog(Connection& connection) {
  if (connection.backlog != nullptr && connection.backlog->inbox.empty() &&
      connection.backlog->outbox.empty()) {
    connection.backlog.reset();
  }
}

}  // namespace cpprun
