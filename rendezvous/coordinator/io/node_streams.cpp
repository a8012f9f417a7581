// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/coordinator/io/node_streams.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rendezvous/store/bounds.h"

namespace cpprun {

// The store's side of one worker's connection.
class NodeStreams::Client : public StoreStream {
 public:
  Client(const std::shared_ptr<NodeStreams>& node, StreamId stream)
      : node_(node), stream_(stream) {}

  void set_id(ConnectionId id) { id_ = id; }
  ConnectionId id() const { return id_; }

  std::size_t read(std::span<char> into) override {
    const auto node = node_.lock();
    if (!node) return 0;
    const std::string_view bytes = node->streams_.heard(stream_).substr(0, into.size());
    if (bytes.empty()) return 0;
    std::memcpy(into.data(), bytes.data(), bytes.size());
    node->streams_.take(stream_, bytes.size());
    // Taking bytes may have to be acknowledged, and taking the last ones may end the stream.
    node->look_at_changes();
    node->send_soon();
    return bytes.size();
  }

  std::size_t write(std::string_view bytes) override {
    const auto node = node_.lock();
    // A client that has left accepts and discards everything.
    if (!node || node->streams_.has_left(stream_)) return bytes.size();
    const std::size_t count = std::min(bytes.size(), node->streams_.room(stream_));
    node->streams_.say(stream_, bytes.substr(0, count));
    node->send_soon();
    return count;
  }

  void closed() override {
    if (const auto node = node_.lock()) node->forget(stream_);
  }

 private:
  std::weak_ptr<NodeStreams> node_;
  StreamId stream_;
  ConnectionId id_{};
};

NodeStreams::NodeStreams(const Loop& loop, RoundNumber round, const Context& place,
                         std::size_t window)
    : loop_(loop),
      place_(place),
      books_(place_.connections.shared_accounting(), place_.peer),
      streams_(round, window) {
  if (place_.log != nullptr) streams_.keep_journal(&journal_);
}

void NodeStreams::NodeJournal::taken(StreamId stream, std::uint64_t up_to) noexcept {
  using Kind = StoreRecord::Kind;
  place.log->add({.kind = Kind::taken, .node = place.node, .stream = stream, .place = up_to});
}

void NodeStreams::NodeJournal::over(StreamId stream) noexcept {
  place.log->add({.kind = StoreRecord::Kind::over, .node = place.node, .stream = stream});
}

std::string NodeStreams::hear(LinkId link, link::StreamFrameReader& records) {
  if (link_ != link) {
    link_ = link;
    streams_.begin_link();
  }
  const auto heard = streams_.hear(records);
  if (!heard) return heard.error().reason;
  look_at_changes();
  place_.connections.serve_streams(loop_.now());
  send();
  return {};
}

void NodeStreams::look_at_changes() {
  while (const auto change = streams_.next_change()) {
    if (change->is_new) open(change->stream);
    const auto found = clients_.find(change->stream);
    if (found == clients_.end()) continue;
    place_.connections.tell_stream(
        found->second->id(),
        {.has_bytes = change->has_bytes, .has_room = change->has_room, .is_over = change->is_over});
  }
}

void NodeStreams::open(StreamId stream) {
  if (!begin(stream)) streams_.close(stream);
}

Result<ConnectionId> NodeStreams::begin(StreamId stream) {
  const auto client = std::make_shared<Client>(shared_from_this(), stream);
  const auto id = place_.connections.open_stream(place_.listener, place_.peer, client);
  if (!id) return id;
  client->set_id(*id);
  clients_.emplace(stream, client);
  if (place_.log != nullptr) write_opened(*place_.log, *id, stream);
  return id;
}

void NodeStreams::write_opened(StoreLog& log, ConnectionId client, StreamId stream) const {
  const std::string peer = bytes_of(place_.peer);
  log.add({.kind = StoreRecord::Kind::opened,
           .client = client,
           .node = place_.node,
           .stream = stream,
           .key = peer});
}

// --- another process takes over ------------------------------------------------------------------

void NodeStreams::keep_log(StoreLog* log) {
  place_.log = log;
  streams_.keep_journal(log == nullptr ? nullptr : &journal_);
}

void NodeStreams::show(StoreLog& log) const {
  const GroupRank node = place_.node;
  streams_.show([&](const StoreStreams::Shown& shown) {
    const auto client = clients_.find(shown.stream);
    if (client != clients_.end()) write_opened(log, client->second->id(), shown.stream);
    log.add({.kind = StoreRecord::Kind::stream,
             .node = node,
             .stream = shown.stream,
             .place = shown.taken_here,
             .count = shown.taken_there,
             .flags = shown.is_closed ? 1U : 0U,
             .bytes = shown.outgoing});
  });
  const std::string peer = bytes_of(place_.peer);
  log.add({.kind = StoreRecord::Kind::numbered,
           .node = node,
           .stream = streams_.newest(),
           .key = peer});
}

Result<ConnectionId> NodeStreams::replay_open(StreamId stream) {
  streams_.replay_open(stream);
  return begin(stream);
}

void NodeStreams::replay(const StoreRecord& record) {
  using Kind = StoreRecord::Kind;
  if (record.kind == Kind::read) streams_.replay_take(record.stream, record.bytes.size());
  if (record.kind == Kind::taken) streams_.replay_taken(record.stream, record.place);
  if (record.kind == Kind::over) streams_.replay_over(record.stream);
  if (record.kind == Kind::numbered) streams_.replay_newest(record.stream);
  if (record.kind == Kind::stream) {
    streams_.restore({.stream = record.stream,
                      .taken_here = record.place,
                      .taken_there = record.count,
                      .is_closed = record.flags != 0,
                      .outgoing = record.bytes});
  }
  look_at_changes();
}

void NodeStreams::forget(StreamId stream) {
  clients_.erase(stream);
  streams_.close(stream);
  send_soon();
}

// Data that waits in either direction counts for the node. If it has grown beyond the limit, the
// client with the most data is disconnected, and no other is affected.
void NodeStreams::update_accounts() {
  const std::size_t before = books_.bytes();
  bool has_dropped = false;
  while (true) {
    std::string objection = books_.hold_at_all(streams_.bytes_held());
    if (objection.empty() || books_.bytes() <= before) break;
    const auto held = [this](const auto& each) { return streams_.bytes_held(each.first); };
    const auto most = std::ranges::max_element(clients_, {}, held);
    if (most == clients_.end() || held(*most) == 0) break;
    place_.connections.tell_stream(most->second->id(), {.reason = std::move(objection)});
    streams_.drop(most->first);
    clients_.erase(most);
    has_dropped = true;
  }
  if (has_dropped) place_.connections.serve_streams(loop_.now());
}

// Sends once for everything that happens in this turn.
void NodeStreams::send_soon() {
  if (std::exchange(is_sending_soon_, true)) return;
  loop_.soon([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->is_sending_soon_ = false;
    self->send();
  });
}

void NodeStreams::go_on() {
  send();
}

void NodeStreams::send() {
  send_some();
  update_accounts();
}

// Other clients get a turn before it sends more.
void NodeStreams::send_some() {
  for (int left = bounds::store_frames_per_turn;
       link_ && streams_.has_frame() && loop_.has_room(*link_); --left) {
    if (left == 0) return send_soon();
    loop_.send(*link_, streams_.next_frame());
  }
}

// Frames of a past round, or from a node without a seat, are ignored.
std::string StreamRoutes::hear(LinkId link, const PeerAddress& peer, std::string_view frame) {
  link::StreamFrameReader records(frame);
  const auto round = records.round();
  if (!round) return round.error().reason;
  const auto seat = callbacks_.seat_of(link);
  if (!seat || seat->round != *round) return {};
  // Keeps it alive: the frame may end the round.
  const std::shared_ptr<NodeStreams> kept = of(*seat, peer);
  by_link_[link] = kept;
  return kept->hear(link, records);
}

std::shared_ptr<NodeStreams> StreamRoutes::of(const Coordinator::Seat& seat,
                                              const PeerAddress& peer) {
  auto& streams = streams_[{seat.job, seat.group_rank}];
  if (streams == nullptr || streams->round() != seat.round) {
    streams = std::make_shared<NodeStreams>(
        callbacks_.loop, seat.round,
        NodeStreams::Context{.connections = connections_,
                             .listener = callbacks_.listener_of(seat.job),
                             .peer = peer,
                             .node = seat.group_rank,
                             .log = callbacks_.log_of(seat.job)},
        window_);
  }
  return streams;
}

void StreamRoutes::keep_log(const std::string& job, StoreLog* log) {
  for (const auto& [seat, streams] : streams_) {
    if (seat.first == job) streams->keep_log(log);
  }
}

void StreamRoutes::show(const std::string& job, StoreLog& log) const {
  for (const auto& [seat, streams] : streams_) {
    if (seat.first == job) streams->show(log);
  }
}

void StreamRoutes::go_on(LinkId link) {
  const auto found = by_link_.find(link);
  const auto streams = found == by_link_.end() ? nullptr : found->second.lock();
  if (streams) streams->go_on();
}

void StreamRoutes::forget(const std::string& job) {
  std::erase_if(streams_, [&](const auto& each) { return each.first.first == job; });
}

std::size_t StreamRoutes::clients() const {
  std::size_t sum = 0;
  for (const auto& [seat, streams] : streams_) sum += streams->clients();
  return sum;
}

}  // namespace cpprun
