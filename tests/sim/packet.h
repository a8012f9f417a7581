// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What travels through a simulated connection, from one side to the other.

#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun::sim {

enum class Side { agent, coordinator };

struct Packet {
  // `cipher` is some of the bytes of a connection on which both sides hold a secret.
  enum class Kind { syn, greeting, frame, heartbeat, streams, cipher, fin, reset };
  Kind kind = Kind::frame;
  link::Heartbeat heartbeat = {};  // as it is: there are too many to encode them all
  std::string bytes = {};
  TimePoint due{};
  // Of cipher: of frames of streams, or not the last piece of what was said.
  bool shows_nobody = false;
};

}  // namespace cpprun::sim
