// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/store_forwarder.h"

#include <algorithm>
#include <array>
#include <asio/post.hpp>
#include <utility>

#include "proto/bounds.h"
#include "proto/stream_bounds.h"
#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/io/worker_admission.h"

namespace cpprun {

using asio::ip::tcp;

// One worker's connection, on the side of the worker.
class StoreForwarder::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(StoreForwarder& forwarder, tcp::socket socket, StreamId stream)
      : forwarder_(&forwarder), socket_(std::move(socket)), stream_(stream) {
    asio::error_code ignored;  // Options are a courtesy.
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);  // Where that fails the first read says why.
  }

  // As long as there is room for what it says.
  void read_on() {
    if (is_reading_ || is_closed() || streams().room(stream_) == 0) return;
    is_reading_ = true;
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         self->is_reading_ = false;
                         if (self->is_closed()) return;
                         if (error) return self->leave();
                         self->read();
                       });
  }

  // What the store has answered.
  void write_on() {
    if (is_writing_ || is_closed()) return;
    while (true) {
      const std::string_view bytes = streams().heard(stream_);
      if (bytes.empty()) break;
      asio::error_code error;
      const std::size_t count = socket_.write_some(asio::buffer(bytes), error);
      streams().take(stream_, count);
      if (error == asio::error::would_block) return wait_for_room();
      if (error) return leave();
    }
    if (is_over_) leave();
  }

  // The store says nothing more: what it has said is still written.
  void end() {
    is_over_ = true;
    write_on();
  }

  // Its round is over.
  void drop() {
    forwarder_ = nullptr;
    asio::error_code ignored;  // It is over either way.
    socket_.close(ignored);
  }

 private:
  bool is_closed() const { return forwarder_ == nullptr; }
  StoreStreams& streams() { return *forwarder_->streams_; }

  void read() {
    std::array<char, bounds::store_forwarder_read_bytes> chunk;
    const std::size_t size = std::min(chunk.size(), streams().room(stream_));
    asio::error_code error;
    const std::size_t count = socket_.read_some(asio::buffer(chunk.data(), size), error);
    if (error && error != asio::error::would_block) return leave();
    streams().say(stream_, {chunk.data(), count});
    forwarder_->spoke(stream_);
    if (!is_closed()) read_on();
  }

  void wait_for_room() {
    is_writing_ = true;
    socket_.async_wait(tcp::socket::wait_write,
                       [self = shared_from_this()](const asio::error_code& error) {
                         self->is_writing_ = false;
                         if (self->is_closed()) return;
                         if (error) return self->leave();
                         self->write_on();
                         if (!self->is_closed()) self->forwarder_->send_soon();
                       });
  }

  void leave() {
    StoreForwarder& forwarder = *forwarder_;
    forwarder.streams_->close(stream_);
    drop();
    forwarder.workers_.erase(stream_);
    forwarder.send_soon();
  }

  StoreForwarder* forwarder_;  // null: it is closed
  tcp::socket socket_;
  StreamId stream_;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_over_ = false;
};

Result<std::unique_ptr<StoreForwarder>> StoreForwarder::open(asio::io_context& context,
                                                             Callbacks callbacks) {
  tcp::acceptor acceptor(context);
  const tcp::endpoint any_port(asio::ip::address_v4::loopback(), 0);
  asio::error_code error;
  acceptor.open(any_port.protocol(), error);
  if (!error) acceptor.bind(any_port, error);
  if (!error) acceptor.listen(bounds::store_forwarder_backlog, error);
  if (error) {
    return failure("cannot open a port of 127.0.0.1 for this node's workers: " + error.message() +
                   "; is the loopback interface up? With --store=direct none is needed");
  }
  return std::unique_ptr<StoreForwarder>(
      new StoreForwarder(context, std::move(acceptor), std::move(callbacks)));
}

StoreForwarder::StoreForwarder(asio::io_context& context, tcp::acceptor acceptor,
                               Callbacks callbacks)
    : context_(context),
      acceptor_(std::move(acceptor)),
      rest_(context),
      callbacks_(std::move(callbacks)),
      port_(acceptor_.local_endpoint().port()) {
  accept();
}

StoreForwarder::~StoreForwarder() {
  close_all();
}

void StoreForwarder::close_all() {
  for (const auto& [stream, worker] : std::exchange(workers_, {})) worker->drop();
}

// --- workers -------------------------------------------------------------------------------------

void StoreForwarder::accept() {
  acceptor_.async_accept([this, alive = std::weak_ptr<char>(alive_)](const asio::error_code& error,
                                                                     tcp::socket socket) {
    if (alive.expired() || error == asio::error::operation_aborted) return;
    if (!error) {
      let_in(std::move(socket));
      return accept();
    }
    // For want of descriptors, nearly always: whoever waits is let in when there is one.
    rest_.expires_after(bounds::store_accept_rest);
    rest_.async_wait([this, alive](const asio::error_code& cancelled) {
      if (!cancelled && !alive.expired()) accept();
    });
  });
}

void StoreForwarder::let_in(tcp::socket socket) {
  const int fd = socket.native_handle();
  const PeerAddress peer = peer_address_of(fd);
  if (!streams_) return callbacks_.refused(peer, "no round has begun");
  const auto admitted = admit_worker({.theirs = peer, .ours = local_address_of(fd)});
  if (!admitted) return callbacks_.refused(peer, admitted.error().reason);
  // The coordinator takes twice as many, and some may be on their way out.
  if (streams_->size() >= bounds::store_streams_max / 2) {
    return callbacks_.refused(peer, "this node's workers have too many connections to their store");
  }
  const StreamId stream = streams_->open();
  const auto worker = std::make_shared<Worker>(*this, std::move(socket), stream);
  workers_.emplace(stream, worker);
  worker->read_on();
}

void StoreForwarder::begin_round(RoundNumber round) {
  close_all();
  streams_.emplace(round);
}

// --- the link ------------------------------------------------------------------------------------

void StoreForwarder::begin_link() {
  if (!streams_) return;
  streams_->begin_link();
  send();
}

std::string StoreForwarder::hear(std::string_view frame) {
  link::StreamFrameReader records(frame);
  const auto round = records.round();
  if (!round) return round.error().reason;
  if (!streams_ || streams_->round() != *round) return {};  // of a round that is over here
  const auto heard = streams_->hear(records);
  if (!heard) return heard.error().reason;
  look_at_changes();
  send();
  return {};
}

void StoreForwarder::look_at_changes() {
  while (const auto change = streams_->next_change()) {
    const auto found = workers_.find(change->stream);
    if (found == workers_.end()) continue;
    const std::shared_ptr<Worker> worker = found->second;
    if (change->has_bytes) worker->write_on();
    if (change->has_room) worker->read_on();
    if (change->is_over) worker->end();
  }
}

// Where one speaks alone, what it says leaves at once; where several do, together.
void StoreForwarder::spoke(StreamId worker) {
  if (std::exchange(spoke_last_, worker) != worker) several_speak_ = true;
  if (several_speak_) return send_soon();
  send();
}

// Once for all that workers have said at the same time.
void StoreForwarder::send_soon() {
  if (std::exchange(is_sending_soon_, true)) return;
  asio::post(context_, [this, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    is_sending_soon_ = false;
    several_speak_ = false;
    look_at_changes();
    send();
  });
}

void StoreForwarder::send() {
  // The agent's own affairs come in between.
  for (int left = bounds::store_frames_per_turn;
       streams_ && streams_->has_frame() && callbacks_.has_room(); --left) {
    if (left == 0) return send_soon();
    callbacks_.send(streams_->next_frame());
  }
}

}  // namespace cpprun
