// SPDX-License-Identifier: BSD-3-Clause
#include "tests/sim/loopback.h"

#include <algorithm>
#include <utility>

namespace cpprun::sim {

using namespace std::chrono_literals;

void Loopback::later(TimePoint& last, std::function<void()> what) {
  last = std::max(last, time_.now() + 5us + random_.up_to(50us));
  time_.at(last, [self = shared_from_this(), what = std::move(what)] { what(); });
}

void Loopback::tell_server(const std::function<void()> Loopback::*what) {
  server_.receive([self = shared_from_this(), what] {
    const auto call = (*self).*what;  // a copy: it may close this very connection
    if (self->is_open_ && call) call();
  });
}

// --- the worker ----------------------------------------------------------------------------------

void Loopback::say(std::string_view bytes) {
  later(last_up_, [this, text = std::string(bytes)] {
    if (!is_open_ || has_left_) return;
    unread_ += text;
    tell_server(&Loopback::readable);
  });
}

void Loopback::leave() {
  heard = nullptr;
  ended = nullptr;
  later(last_up_, [this] {
    if (!is_open_ || std::exchange(has_left_, true)) return;
    tell_server(&Loopback::readable);
  });
}

// --- the server ----------------------------------------------------------------------------------

std::size_t Loopback::write(std::string_view bytes) {
  const std::size_t count = std::min(room_, bytes.size());
  is_full_ = count < bytes.size();
  if (count == 0) return 0;
  room_ -= count;
  later(last_down_, [this, text = std::string(bytes.substr(0, count))] {
    room_ += text.size();
    if (const auto call = heard) call(text);
    if (std::exchange(is_full_, false)) tell_server(&Loopback::writable);
  });
  return count;
}

void Loopback::close() {
  if (!std::exchange(is_open_, false)) return;
  readable = nullptr;
  writable = nullptr;
  later(last_down_, [this] {
    if (const auto call = ended) call();
  });
}

}  // namespace cpprun::sim
