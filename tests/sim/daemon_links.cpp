// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/daemon_links.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "proto/link/binary_frame.h"
#include "proto/link/codec.h"
#include "rendezvous/client/bounds.h"

namespace cpprun::sim {

using namespace std::chrono_literals;

namespace {

constexpr std::size_t length_bytes = 4;  // in front of a frame

}  // namespace

// A connection; side 0 has dialled. What arrives waits for the process of that side.
class DaemonLinks::Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum class What { syn, greeting, said, fin, reset };
  struct Piece {
    What what{};
    std::string bytes;
    TimePoint due{};
  };
  struct End {
    int daemon = 0;
    bool is_open = false;
    bool is_gone = false;  // its process has ended
    LinkCallbacks callbacks = {};
    TimePoint last{};  // when the last message to it arrives, if nothing is cut
    std::deque<Piece> coming = {};
    std::size_t bytes_left = 0;  // sent by it and still in flight
  };

  Wire(DaemonLinks& all, int from, int to) : all_(all) {
    ends_[0].daemon = from;
    ends_[1].daemon = to;
  }

  End& end(std::size_t side) { return ends_[side]; }

  void dial(LinkCallbacks callbacks, std::function<void()> up) {
    ends_[0].callbacks = std::move(callbacks);
    ends_[0].is_open = true;
    up_ = std::move(up);
    send(0, What::syn);
    all_.universe_.time.later(bounds::dial_attempt_max, [self = shared_from_this()] {
      if (!self->ends_[0].is_open) return;
      self->program(0).receive([self] { self->give_up(); }, true);
    });
  }
  void say(std::size_t side, std::string bytes) {
    if (ends_[side].is_open) send(side, What::said, std::move(bytes));
  }
  bool has_room(std::size_t side) const {
    return ends_[side].is_open && ends_[side].bytes_left < all_.universe_.scenario.set->link_room;
  }
  void close(std::size_t side) {
    if (std::exchange(ends_[side].is_open, false)) send(side, What::fin);
  }
  // The process of that side has ended.
  void abandon(std::size_t side) {
    ends_[side].callbacks = {};
    ends_[side].is_gone = true;
    if (std::exchange(ends_[side].is_open, false)) send(side, What::reset);
  }

 private:
  Program& program(std::size_t side) { return all_.ends_.program(ends_[side].daemon); }

  void send(std::size_t from, What what, std::string bytes = {}) {
    End& to = ends_[1 - from];
    ends_[from].bytes_left += bytes.size();
    to.last =
        std::max(to.last, all_.universe_.time.now() + all_.delay(ends_[from].daemon, to.daemon));
    to.coming.push_back({what, std::move(bytes), to.last});
    look_in(from, to.last);
  }

  void look_in(std::size_t from, TimePoint when) {
    all_.universe_.time.at(when, [self = shared_from_this(), from] { self->travel(from); });
  }

  // In the order of sending, whatever was cut meanwhile.
  void travel(std::size_t from) {
    End& to = ends_[1 - from];
    const TimePoint now = all_.universe_.time.now();
    const TimePoint heals = all_.cut_until(ends_[from].daemon, to.daemon);
    if (heals > now) return look_in(from, heals + 1ms);
    while (!to.coming.empty() && to.coming.front().due <= now) {
      const Piece piece = std::move(to.coming.front());
      to.coming.pop_front();
      arrive(from, piece.what, piece.bytes);
    }
  }

  void arrive(std::size_t from, What what, const std::string& bytes) {
    const std::size_t at = 1 - from;
    const auto is_up = [this](std::size_t side) {
      return all_.network_.is_host_up(daemon_place(ends_[side].daemon));
    };
    if (!is_up(at) || (!is_up(from) && what == What::reset)) return;
    make_room(from, bytes.size());
    if (ends_[at].is_gone || !program(at).alive()) {
      if (what != What::reset && what != What::fin) send(at, What::reset);
      return;
    }
    program(at).receive(
        [self = shared_from_this(), at, what, bytes] { self->hear(at, what, bytes); });
  }

  void make_room(std::size_t side, std::size_t size) {
    const bool had_room = has_room(side);
    ends_[side].bytes_left -= std::min(ends_[side].bytes_left, size);
    if (had_room || !has_room(side)) return;
    program(side).receive([self = shared_from_this(), side] {
      const auto room = self->ends_[side].callbacks.room;
      if (self->ends_[side].is_open && room) room();
    });
  }

  void hear(std::size_t at, What what, const std::string& bytes) {
    switch (what) {
      case What::syn:
        ends_[at].is_open = true;
        return send(at, What::greeting);
      case What::greeting:
        is_up_ = true;
        if (ends_[at].is_open) up_();
        return;
      case What::said:
        if (ends_[at].is_open) hear_frame(at, bytes);
        return;
      case What::fin:
        return end_at(at, "connection closed by the peer");
      case What::reset:
        return end_at(at, is_up_ || at == 1 ? "connection reset by peer" : "connection refused");
    }
  }

  void hear_frame(std::size_t at, const std::string& bytes) {
    const std::string_view frame = std::string_view(bytes).substr(length_bytes);
    auto& callbacks = ends_[at].callbacks;
    if (link::is_standby_frame(frame)) {
      // The callback may forget the link.
      const auto streams = callbacks.streams;
      const std::string reason = streams ? streams(frame) : "it says nothing of the kind";
      all_.universe_.judge.must(reason.empty(), "between cpprunds: " + reason);
      return;
    }
    auto decoded = link::decode(bytes);
    all_.universe_.judge.must(decoded && *decoded, "a cpprund's frame cannot be decoded");
    if (!decoded || !*decoded) return;
    const link::Message message = std::move((*decoded)->message);
    if (const auto* const follow = std::get_if<link::Follow>(&message); follow && at == 1) {
      return all_.ends_.adopt(ends_[1].daemon, std::make_shared<Accepted>(shared_from_this()),
                              *follow);
    }
    if (const auto heard = callbacks.message) heard(message);
  }

  void give_up() {
    if (is_up_ || !ends_[0].is_open) return;
    close(0);
    if (const auto closed = ends_[0].callbacks.closed) closed("no answer in time");
  }
  void end_at(std::size_t at, const std::string& reason) {
    if (!std::exchange(ends_[at].is_open, false)) return;
    if (const auto closed = ends_[at].callbacks.closed) closed(reason);
  }

  class Accepted : public LinkEnd {
   public:
    explicit Accepted(std::shared_ptr<Wire> wire) : wire_(std::move(wire)) {}
    void listen(LinkCallbacks callbacks) override {
      wire_->end(1).callbacks = std::move(callbacks);
    }
    void send(const link::Message& message) override { wire_->say(1, link::encode(message)); }
    void send_bytes(std::string_view bytes) override { wire_->say(1, std::string(bytes)); }
    bool has_room() const override { return wire_->has_room(1); }
    void hang_up(std::string) override { wire_->close(1); }
    void forget() override { wire_->end(1).callbacks = {}; }

   private:
    std::shared_ptr<Wire> wire_;
  };

  DaemonLinks& all_;
  std::array<End, 2> ends_;
  std::function<void()> up_;
  bool is_up_ = false;
};

class DaemonLinks::Dialled : public DialledLink {
 public:
  Dialled(DaemonLinks& all, int from, int to, DialCallbacks callbacks)
      : all_(all), from_(from), to_(to), callbacks_(std::move(callbacks)) {}
  ~Dialled() override { leave(); }
  Dialled(const Dialled&) = delete;
  Dialled& operator=(const Dialled&) = delete;

  void dial_once() override {
    leave();
    wire_ = std::make_shared<Wire>(all_, from_, to_);
    std::erase_if(all_.wires_, [](const auto& each) { return each.expired(); });
    all_.wires_.push_back(wire_);
    wire_->dial({.message = callbacks_.message,
                 .streams = callbacks_.streams,
                 .room = callbacks_.room,
                 .closed = callbacks_.down},
                [this] { callbacks_.up(""); });
  }
  void send(const link::Message& message) override {
    if (wire_) wire_->say(0, link::encode(message));
  }
  void send_bytes(std::string_view bytes) override {
    if (wire_) wire_->say(0, std::string(bytes));
  }
  void hang_up() override { leave(); }

 private:
  void leave() {
    const auto wire = std::exchange(wire_, nullptr);
    if (!wire) return;
    wire->end(0).callbacks = {};
    wire->close(0);
  }

  DaemonLinks& all_;
  int from_;
  int to_;
  DialCallbacks callbacks_;
  std::shared_ptr<Wire> wire_;
};

DaemonLinks::DaemonLinks(Universe& universe, Network& network, Ends ends)
    : universe_(universe),
      network_(network),
      ends_(std::move(ends)),
      random_(universe.scenario.seed, 73),
      daemons_(universe.scenario.set->daemons),
      cuts_(static_cast<std::size_t>(daemons_ * daemons_)) {}

DaemonLinks::~DaemonLinks() = default;

std::unique_ptr<DialledLink> DaemonLinks::link_to(int from, int to, DialCallbacks callbacks) {
  return std::make_unique<Dialled>(*this, from, to, std::move(callbacks));
}

void DaemonLinks::ended(int daemon) {
  for (const auto& each : wires_) {
    const auto wire = each.lock();
    for (const std::size_t side : {0, 1}) {
      if (wire && wire->end(side).daemon == daemon) wire->abandon(side);
    }
  }
}

void DaemonLinks::cut(int from, int to, TimePoint until) {
  TimePoint& cut = cut_until(from, to);
  cut = std::max(cut, until);
}

TimePoint& DaemonLinks::cut_until(int from, int to) {
  return cuts_[static_cast<std::size_t>(from * daemons_ + to)];
}

Duration DaemonLinks::delay(int from, int to) {
  const TimePoint now = universe_.time.now();
  Duration delay = 20us + random_.up_to(universe_.scenario.delay_max);
  const bool is_slow =
      network_.daemon_path(from).slow_until > now || network_.daemon_path(to).slow_until > now;
  return is_slow ? delay + random_.up_to(2s) : delay;
}

}  // namespace cpprun::sim
