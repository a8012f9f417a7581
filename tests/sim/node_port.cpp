// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/node_port.h"

#include <fmt/format.h>

#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

// The worker's side of one connection.
class NodePort::End : public WorkerConnection, public std::enable_shared_from_this<End> {
 public:
  End(WorkerStreams& streams, std::shared_ptr<Loopback> worker)
      : streams_(&streams), worker_(std::move(worker)) {}

  void begin() {
    stream_ = streams_->open(shared_from_this());
    const std::weak_ptr<End> weak = weak_from_this();
    worker_->readable = [weak] {
      if (const auto self = weak.lock()) self->read_on();
    };
    worker_->writable = [weak] {
      const auto self = weak.lock();
      if (!self || self->is_closed()) return;
      self->write_on();
      if (!self->is_closed()) self->streams_->send_soon();
    };
    read_on();
  }

  void read_on() override {
    while (!is_closed() && !worker_->unread().empty()) {
      const std::string bytes(worker_->unread().substr(0, streams_->room(stream_)));
      if (bytes.empty()) return;
      worker_->take(bytes.size());
      streams_->say(stream_, bytes);
    }
    if (!is_closed() && worker_->has_left()) leave();
  }

  void write_on() override {
    while (!is_closed()) {
      const std::string_view bytes = streams_->heard(stream_);
      if (bytes.empty()) break;
      const std::size_t count = worker_->write(bytes);
      streams_->take(stream_, count);
      if (count == 0) return;
    }
    if (is_over_ && !is_closed()) leave();
  }

  void end() override {
    is_over_ = true;
    write_on();
  }

  void drop() override {
    streams_ = nullptr;
    worker_->close();
  }

 private:
  bool is_closed() const { return streams_ == nullptr; }

  void leave() {
    WorkerStreams& streams = *streams_;
    drop();
    streams.leave(stream_);
  }

  WorkerStreams* streams_;  // null: it is closed
  std::shared_ptr<Loopback> worker_;
  StreamId stream_{};
  bool is_over_ = false;
};

NodePort::NodePort(Universe& universe, int node, Program& program, Hooks hooks)
    : universe_(universe), node_(node), program_(program), hooks_(std::move(hooks)) {}

void NodePort::begin() {
  end();
  if (!universe_.scenario.stores) return;
  streams_.emplace(
      WorkerStreams::Callbacks{
          .has_room = hooks_.has_room, .send = hooks_.send, .turn_soon = [this] { turn_soon(); }},
      universe_.scenario.stores->window);
}

void NodePort::end() {
  ++life_;
  turns_due_ = 0;
  if (streams_) streams_->drop_all();
  streams_.reset();
}

void NodePort::accept(const std::shared_ptr<Loopback>& worker) {
  if (!streams_ || !streams_->objection().empty()) {
    worker->close();
    return;
  }
  std::make_shared<End>(*streams_, worker)->begin();
  examine();
}

void NodePort::begin_round(RoundNumber round) {
  if (streams_) streams_->begin_round(round);
}

void NodePort::end_round() {
  if (streams_) streams_->end_round();
}

void NodePort::begin_link() {
  if (streams_) streams_->begin_link();
}

std::string NodePort::hear(std::string_view frame) {
  std::string reason = streams_ ? streams_->hear(frame) : std::string();
  universe_.judge.must(
      reason.empty(),
      fmt::format("node {} ends its link for a frame of the coordinator's: {}", node_, reason));
  examine();
  return reason;
}

void NodePort::go_on() {
  if (streams_) streams_->go_on();
}

void NodePort::turn_soon() {
  ++turns_due_;
  universe_.time.later(0ns, [this, life = life_] {
    if (life != life_) return;
    program_.receive([this, life] {
      if (life != life_) return;
      --turns_due_;
      streams_->turn();
    });
  });
}

void NodePort::examine() {
  const auto broken = streams_ ? streams_->check() : std::nullopt;
  if (broken) {
    universe_.judge.must(false, fmt::format("the streams of node {}: {}", node_, *broken));
  }
}

}  // namespace cpprun::sim
