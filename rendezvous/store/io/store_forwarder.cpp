// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/store/io/store_forwarder.h"

#include <fmt/format.h>
#include <unistd.h>
#include <asio/post.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "rendezvous/io/socket_address.h"
#include "rendezvous/store/bounds.h"

namespace cpprun {

using asio::ip::tcp;

// One worker's connection, on the worker's side.
class StoreForwarder::Worker : public WorkerConnection,
                               public std::enable_shared_from_this<Worker> {
 public:
  Worker(WorkerStreams& streams, tcp::socket socket)
      : streams_(&streams), socket_(std::move(socket)) {
    asio::error_code ignored;  // Options are not essential.
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);  // If that fails, the first read reports why.
  }

  void begin() {
    stream_ = streams_->open(shared_from_this());
    read_on();
  }

  // It has this stream already.
  void resume(StreamId stream) {
    stream_ = stream;
    read_on();
  }

  int socket() { return socket_.native_handle(); }

  void read_on() override {
    if (is_reading_ || is_closed() || streams_->room(stream_) == 0) return;
    is_reading_ = true;
    socket_.async_wait(tcp::socket::wait_read,
                       [self = shared_from_this()](const asio::error_code& error) {
                         self->is_reading_ = false;
                         if (self->is_closed()) return;
                         if (error) return self->leave();
                         self->read();
                       });
  }

  void write_on() override {
    if (is_writing_ || is_closed()) return;
    while (true) {
      const std::string_view bytes = streams_->heard(stream_);
      if (bytes.empty()) break;
      asio::error_code error;
      const std::size_t count = socket_.write_some(asio::buffer(bytes), error);
      streams_->take(stream_, count);
      if (error == asio::error::would_block) return wait_for_room();
      if (error) return leave();
    }
    if (is_over_) leave();
  }

  void end() override {
    is_over_ = true;
    write_on();
  }

  void drop() override {
    streams_ = nullptr;
    asio::error_code ignored;  // It is over either way.
    socket_.close(ignored);
  }

 private:
  bool is_closed() const { return streams_ == nullptr; }

  void read() {
    std::array<char, bounds::store_forwarder_read_bytes> chunk;
    const std::size_t size = std::min(chunk.size(), streams_->room(stream_));
    asio::error_code error;
    const std::size_t count = socket_.read_some(asio::buffer(chunk.data(), size), error);
    if (error && error != asio::error::would_block) return leave();
    streams_->say(stream_, {chunk.data(), count});
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
                         if (!self->is_closed()) self->streams_->send_soon();
                       });
  }

  void leave() {
    WorkerStreams& streams = *streams_;
    drop();
    streams.leave(stream_);
  }

  WorkerStreams* streams_;  // null: closed
  tcp::socket socket_;
  StreamId stream_{};
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
    return failure("cannot open a port on 127.0.0.1 for this node's workers: " + error.message() +
                   "; bring up the loopback interface, or use --store=direct");
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
      port_(acceptor_.local_endpoint().port()),
      streams_({.has_room = callbacks_.has_room, .send = callbacks_.send, .turn_soon = [this] {
                  turn_soon();
                }}) {
  accept();
}

StoreForwarder::Carried StoreForwarder::carried() const {
  Carried carried{.port = acceptor_.native_handle(),
                  .round = streams_.round().value_or(RoundNumber{}),
                  .newest = streams_.newest()};
  streams_.show([&carried](const WorkerStreams::Shown& shown, WorkerConnection* worker) {
    carried.streams.push_back(
        {.stream = shown.stream,
         .socket = worker == nullptr ? -1 : static_cast<Worker*>(worker)->socket(),
         .taken_here = shown.taken_here,
         .taken_there = shown.taken_there,
         .is_closed = shown.is_closed,
         .is_known_there = shown.is_known_there,
         .outgoing = std::string(shown.outgoing)});
  });
  return carried;
}

Result<std::unique_ptr<StoreForwarder>> StoreForwarder::resume(asio::io_context& context,
                                                               const Carried& carried,
                                                               Callbacks callbacks) {
  tcp::acceptor acceptor(context);
  asio::error_code error;
  acceptor.assign(tcp::v4(), carried.port, error);
  if (error) return failure("cannot keep the port for this node's workers: " + error.message());
  std::unique_ptr<StoreForwarder> forwarder(
      new StoreForwarder(context, std::move(acceptor), std::move(callbacks)));
  if (carried.round == RoundNumber{}) return forwarder;
  WorkerStreams& streams = forwarder->streams_;
  streams.begin_round(carried.round);
  for (const Carried::Stream& each : carried.streams) {
    std::shared_ptr<Worker> worker;
    if (each.socket >= 0) {
      tcp::socket socket(context);
      socket.assign(tcp::v4(), each.socket, error);
      if (error) return failure("cannot keep a worker's connection: " + error.message());
      worker = std::make_shared<Worker>(streams, std::move(socket));
    }
    streams.adopt({.stream = each.stream,
                   .taken_here = each.taken_here,
                   .taken_there = each.taken_there,
                   .is_closed = each.is_closed,
                   .is_known_there = each.is_known_there,
                   .outgoing = each.outgoing},
                  worker);
    if (worker) worker->resume(each.stream);
  }
  streams.adopt_newest(carried.newest);
  return forwarder;
}

StoreForwarder::~StoreForwarder() {
  streams_.drop_all();
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
    // Nearly always for lack of descriptors: waiting clients are accepted when one is free.
    rest_.expires_after(bounds::store_accept_rest);
    rest_.async_wait([this, alive](const asio::error_code& cancelled) {
      if (!cancelled && !alive.expired()) accept();
    });
  });
}

void StoreForwarder::let_in(tcp::socket socket) {
  const int fd = socket.native_handle();
  const PeerAddress peer = peer_address_of(fd);
  if (const std::string why = streams_.objection(); !why.empty()) {
    return callbacks_.refused(peer, why);
  }
  const auto admitted = admit_worker({.theirs = peer, .ours = local_address_of(fd)});
  if (!admitted) return callbacks_.refused(peer, admitted.error().reason);
  std::make_shared<Worker>(streams_, std::move(socket))->begin();
}

void StoreForwarder::turn_soon() {
  asio::post(context_, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) streams_.turn();
  });
}

Result<void> admit_worker(const SocketPair& pair) {
  const auto owner = owner_of_peer(pair);
  if (!owner) return failure("the user of the connection is unknown: " + owner.error().reason);
  const auto own = static_cast<std::uint32_t>(::geteuid());
  // Root can read our memory anyway.
  if (*owner == own || *owner == 0) return {};
  return failure(fmt::format(
      "a connection of uid {}, and the store of this node serves workers of uid {} only", *owner,
      own));
}

}  // namespace cpprun
