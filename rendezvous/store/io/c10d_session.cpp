// SPDX-License-Identifier: BSD-3-Clause
// How the bytes of a store client become requests that are decided. Every whole request that is
// there is decided before anything is written, within what one visit may cost.

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/c10d/encoder.h"
#include "proto/machine.h"
#include "proto/sniff.h"
#include "proto/text.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

// From an inbox of that size on, bytes are received straight into it.
constexpr std::size_t large_inbox = bounds::store_read_bytes;
// One sender of a large value does not hold the others up for longer than this takes to copy.
constexpr std::size_t large_read_max = 1024 * 1024;

bool is_departure(int error) {
  return error == ECONNRESET || error == EPIPE || error == ETIMEDOUT;
}

// What it costs to carry a request out, beside what its replies do.
std::size_t work_of(const c10d::Complete& complete) {
  const std::size_t keys =
      std::visit(Overloaded{
                     [](const c10d::Check& check) { return check.keys.size(); },
                     [](const c10d::Wait& wait) { return wait.keys.size(); },
                     [](const c10d::MultiGet& get) { return get.keys.size(); },
                     [](const c10d::MultiSet& set) { return set.entries.size(); },
                     // Compared byte by byte.
                     [](const c10d::CompareSet& set) {
                       return set.expected.size() / bounds::store_work_of_key;
                     },
                     [](const auto&) { return std::size_t{0}; },
                 },
                 complete.request);
  // Larger ones are not copied.
  const std::size_t copied = complete.size < bounds::store_bulk_bytes_min ? complete.size : 0;
  return bounds::store_work_of_request + copied + keys * bounds::store_work_of_key;
}

}  // namespace

// --- in ----------------------------------------------------------------------------------------

void ConnectionSet::Impl::on_readable(Connection& connection) {
  if (connection.awaits_turn) return;  // what has come is decided first
  Backlog* backlog = connection.backlog.get();
  const bool into_inbox = backlog != nullptr && backlog->inbox.size() >= large_inbox;
  char* at = read_.data();
  std::size_t room = read_.size();
  if (into_inbox) {
    // Little beyond the end of this request: its memory may become the value's, and what follows it
    // would have to be copied.
    const std::size_t here = backlog->inbox.size();
    const std::size_t missing = std::max(backlog->inbox_needed, here) - here;
    room = std::clamp(missing, read_.size(), large_read_max);
    const std::string objection = ledger_->objection(connection.account, room);
    if (!objection.empty()) return close(connection, objection);
    at = backlog->inbox.tail(room, std::max(backlog->inbox_needed, here + room));
  }
  const ssize_t count = ::recv(connection.fd, at, room, 0);
  if (count == 0) return close(connection, "the client left", true);
  if (count < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
    return close(connection, errno_text(errno), is_departure(errno));
  }
  const std::string_view received(at, static_cast<std::size_t>(count));
  spend(received.size());
  if (backlog != nullptr && !backlog->inbox.empty()) {
    if (into_inbox) {
      backlog->inbox.grow_by(received.size());
    } else {
      backlog->inbox.append(received);
    }
    if (!settle(connection)) return;
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
  (void)settle(connection);  // nothing is done with it here, closed or not
}

void ConnectionSet::Impl::digest_inbox(Connection& connection, bool grace_over) {
  Backlog* backlog = connection.backlog.get();
  if (backlog == nullptr || backlog->inbox.empty()) return;
  // The requests point into these bytes, and may end the connection with all that is its own. What
  // is large may become a value of the store as it lies.
  const ByteBuffer::Memory place = [&] {
    ByteBuffer inbox;
    inbox.swap(backlog->inbox);
    const bool is_large = inbox.size() >= large_inbox && inbox.size() >= backlog->inbox_needed;
    if (!is_large) {
      small_inbox_.swap(inbox);
      return ByteBuffer::Memory{};
    }
    ledger_->credit(connection.account, std::exchange(backlog->bytes_charged, 0));
    const ByteBuffer::Memory memory = inbox.release();
    memory_ = std::make_shared<Chunk>(*ledger_, connection.account, memory.data, memory.end,
                                      memory.capacity);
    return memory;
  }();
  c10d::Progress progress = backlog->progress;
  const std::string_view bytes =
      memory_ ? memory_->view().substr(place.start) : small_inbox_.view();
  const Digested done = digest(connection, bytes, progress, grace_over);
  const std::shared_ptr<Chunk> memory = std::move(memory_);
  memory_.reset();
  ByteBuffer rest;
  rest.swap(small_inbox_);
  if (done.is_gone) return;
  if (memory == nullptr) {
    rest.drop_front(done.consumed);
  } else if (memory.use_count() == 1 && done.consumed < bytes.size()) {
    rest.adopt({memory->release(), place.start + done.consumed, place.end, place.capacity});
  } else {
    rest.append(bytes.substr(done.consumed));
  }
  Backlog& kept = backlog_of(connection);
  kept.inbox.swap(rest);
  kept.inbox_needed = done.needed;
  kept.progress = progress;
  if (settle(connection)) drop_empty_backlog(connection);
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
  if (is_kept_for_links(connection.fd)) {
    close(
        connection,
        "the descriptors that are left are kept for agents; raise the limit of them (ulimit -Hn)");
    return Recognised::gone;
  }
  const Result<void> admitted = host_of(connection).admit(connection.peer);
  // The host may have closed clients, for instance because a new round begins.
  if (connection.id != id || connection.is_doomed) return Recognised::gone;
  if (!admitted) {
    close(connection, admitted.error().reason);
    return Recognised::gone;
  }
  if (!pass_door(connection)) {
    const std::string why = errno_text(errno);
    close(connection, why);
    return Recognised::gone;
  }
  connection.speaks = Speaks::store;
  host_of(connection).store().keep_books_in(ledger_);
  return Recognised::store;
}

ConnectionSet::Impl::Digested ConnectionSet::Impl::decide(Connection& connection,
                                                          std::string_view bytes,
                                                          c10d::Progress& progress,
                                                          bool grace_over) {
  const ConnectionId id = connection.id;
  const std::ptrdiff_t end_of_visit =
      work_left_ - static_cast<std::ptrdiff_t>(limits_.work_per_visit);
  Digested done;
  Store& store = host_of(connection).store();
  if (store.abandon_large_wait(id)) queue_unfinished(connection);
  while (done.consumed < bytes.size() && !connection.is_paused) {
    if (work_left_ < end_of_visit || connection.awaits_turn || is_busy()) {
      queue_turn(connection);
      break;
    }
    const std::string_view rest = bytes.substr(done.consumed);
    const c10d::Decoded decoded =
        decoder_.decode(rest, connection.conversation, progress, grace_over);
    if (const auto* complete = std::get_if<c10d::Complete>(&decoded)) {
      carry_out(connection, store, *complete);
      if (connection.id != id) return {.is_gone = true};
      done.consumed += complete->size;
      grace_over = false;
      if (is_busy()) break;
      const Backlog* backlog = connection.backlog.get();
      const std::size_t waiting = backlog == nullptr ? 0 : backlog->outbox.size();
      if (replies_.size() < bounds::store_gather_bytes && waiting <= limits_.outbox_bytes_max) {
        continue;
      }
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

void ConnectionSet::Impl::carry_out(Connection& connection, Store& store,
                                    const c10d::Complete& complete) {
  if (std::holds_alternative<c10d::ListKeys>(complete.request) &&
      store.key_count() > bounds::store_keys_listed_at_once) {
    backlog_of(connection).listing = std::make_unique<Listing>();
    return queue_turn(connection);
  }
  if (is_long(complete)) return begin_long(connection, complete);
  const ConnectionId from = connection.id;
  const std::size_t replies_before = replies_.size();
  actions_.clear();
  store.apply(connection.id, complete.request, actions_, {connection.account, memory_});
  perform(actions_);
  if (store.has_unfinished() && connection.id == from) queue_unfinished(connection);
  const std::size_t replied = std::max(replies_.size(), replies_before) - replies_before;
  spend(work_of(complete) + actions_.size() * bounds::store_work_of_request + replied);
}

// --- turns -------------------------------------------------------------------------------------

// The rest of what it asks waits until its store has done what it has begun.
void ConnectionSet::Impl::queue_unfinished(Connection& connection) {
  notice_unfinished(connection.listener);
  queue_turn(connection);
}

void ConnectionSet::Impl::queue_turn(Connection& connection) {
  if (std::exchange(connection.awaits_turn, true)) return;
  to_decide_.push_back(connection.id);
}

// Those whose requests were more than one visit could decide, each in its turn. Half of the work is
// left for what has come meanwhile.
void ConnectionSet::Impl::decide_queued() {
  const auto half = static_cast<std::ptrdiff_t>(limits_.work_per_turn / 2);
  for (std::size_t left = to_decide_.size(); left > 0 && work_left_ > half && !is_busy(); --left) {
    const ConnectionId id = to_decide_.front();
    to_decide_.pop_front();
    with_memory(id, [&] {
      Connection* connection = heard(id);
      if (connection == nullptr) return;
      connection->awaits_turn = false;
      if (go_on_listing(*connection)) digest_inbox(*connection, false);
    });
  }
}

// False: there are more keys to be listed, or the connection is gone.
bool ConnectionSet::Impl::go_on_listing(Connection& connection) {
  if (connection.backlog == nullptr || connection.backlog->listing == nullptr) return true;
  Listing& listing = *connection.backlog->listing;
  encoded_.clear();
  const std::int64_t listed = listing.progress.key_count;
  const bool is_whole =
      host_of(connection)
          .store()
          .list_some(listing.progress, bounds::store_keys_listed_at_once, encoded_);
  listing.bytes.append(encoded_);
  spend(encoded_.size() +
        static_cast<std::size_t>(listing.progress.key_count - listed) * bounds::store_work_of_key);
  if (!settle(connection)) return false;
  if (!is_whole) {
    queue_turn(connection);
    return false;
  }
  const ByteBuffer::Memory memory = listing.bytes.release();
  Parcel parcel{connection.id, {}};
  c10d::encode(c10d::Number{listing.progress.key_count}, parcel.reply.copied);
  auto chunk = std::make_shared<Chunk>(*ledger_, connection.account, memory.data, memory.end,
                                       memory.capacity);
  parcel.reply.share({std::move(chunk), 0, memory.end});
  connection.backlog->listing.reset();
  const ConnectionId id = connection.id;
  deliver(parcel);
  return connection.id == id && settle(connection);
}

// --- ends --------------------------------------------------------------------------------------

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

}  // namespace cpprun
