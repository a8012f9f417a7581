// SPDX-License-Identifier: BSD-3-Clause
// Clients without a socket: their bytes come through an agent's link. To StoreSessions they are
// like all others, with a number below every descriptor's; within a turn they come behind the
// sockets, and take of the same work.

#include <fmt/format.h>

#include <utility>

#include "rendezvous/store/io/connection_set_impl.h"

namespace cpprun {
namespace {

// -1 is no descriptor anywhere, so these begin below.
constexpr int first_stream = -2;

std::size_t place_of(int socket) {
  return static_cast<std::size_t>(first_stream - socket);
}

int number_of(std::size_t place) {
  return first_stream - static_cast<int>(place);
}

}  // namespace

StoreStream* ConnectionSet::Impl::stream_of(int socket) {
  return socket > first_stream ? nullptr : streams_.at(place_of(socket)).get();
}

Result<ConnectionId> ConnectionSet::Impl::open_stream(ListenerId listener, const PeerAddress& peer,
                                                      std::shared_ptr<StoreStream> stream) {
  Port& port = ports_.at(listener.value);
  if (port.host == nullptr) return failure("its store is closed");
  if (const std::string objection = ledger_->objection_to_connection(peer); !objection.empty()) {
    port.host->note({.peer = peer, .text = "refused: " + objection});
    return failure(objection);
  }
  if (free_streams_.empty()) {
    free_streams_.reserve(streams_.size() + 1);  // so that releasing one takes no memory
    free_streams_.push_back(streams_.size());
    streams_.emplace_back();
  }
  const std::size_t place = free_streams_.back();
  const ConnectionId id = sessions_.open(number_of(place), peer, listener.value, port.dialect);
  free_streams_.pop_back();
  streams_[place] = std::move(stream);
  return id;
}

void ConnectionSet::Impl::release_stream(int socket) {
  const std::size_t place = place_of(socket);
  const auto stream = std::exchange(streams_.at(place), nullptr);
  free_streams_.push_back(place);
  stream->closed();
}

void ConnectionSet::Impl::serve_streams(TimePoint now) {
  now_ = now;
  const std::optional<TimePoint> deadline = sessions_.next_deadline();
  sessions_.begin_turn(now);
  // Others stand in line: then these stand behind them.
  if (!sessions_.is_busy() && !sessions_.has_undecided()) {
    serve_told_streams();
    with_memory({}, [this] {
      while (sessions_.send_next()) perform();
    });
  }
  // Whoever drives us asks for the next deadline only after serve().
  const std::optional<TimePoint> next = sessions_.next_deadline();
  const bool is_sooner = next && (!deadline || *next < *deadline);
  if (!told_streams_.empty() || sessions_.has_more() || is_sooner) wake();
}

bool ConnectionSet::Impl::with_sessions(const std::function<void(StoreSessions&)>& step) {
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

void ConnectionSet::Impl::serve_told_streams() {
  std::erase_if(told_later_, [this](const ToldStream& told) {
    const bool is_due = !sessions_.is_replayed(told.id);
    if (is_due) told_streams_.push_back(told);
    return is_due;
  });
  // Whoever has more is looked at again in the next turn.
  for (std::size_t left = told_streams_.size();
       left > 0 && sessions_.work_left() > 0 && !sessions_.is_busy(); --left) {
    const ToldStream told = std::move(told_streams_.front());
    told_streams_.pop_front();
    with_memory(told.id, [&] { hear_stream(told); });
  }
}

void ConnectionSet::Impl::hear_stream(const ToldStream& told) {
  if (!sessions_.is_heard(told.id)) return;
  // What there is of it is being shown: nothing may change meanwhile.
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
      // What it has asked before is decided first, or somewhere else.
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
    sessions_.close(told.id, "the client left", true);
  }
}

std::size_t ConnectionSet::Impl::write_to(StoreStream& stream,
                                          std::span<const std::string_view> pieces) {
  std::size_t written = 0;
  for (const std::string_view piece : pieces) {
    const std::size_t count = stream.write(piece);
    written += count;
    if (count < piece.size()) break;
  }
  return written;
}

// Whoever brought it has been let in by its link.
void ConnectionSet::Impl::admit_stream(const session::Admit& admit, StoreHost& host) {
  const Result<void> admitted = host.admit_stream(admit.peer);
  if (!sessions_.is_heard(admit.id)) return;
  if (!admitted) return sessions_.close(admit.id, admitted.error().reason);
  sessions_.admit(admit.id);
}

}  // namespace cpprun
