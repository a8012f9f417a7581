// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A packet of a simulated connection.

#include <string>

#include "proto/clock.h"
#include "proto/link/message.h"

namespace cpprun::sim {

enum class Side { agent, coordinator };

struct Packet {
  // `cipher` is some of the bytes of a TLS connection.
  enum class Kind { syn, greeting, frame, heartbeat, streams, cipher, fin, reset };
  Kind kind = Kind::frame;
  link::Heartbeat heartbeat = {};  // not encoded: there are too many
  std::string bytes = {};
  TimePoint due{};
  // For `cipher`: a stream frame, or not the last piece of a message.
  bool hides_agent = false;
};

}  // namespace cpprun::sim
