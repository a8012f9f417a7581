// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Both ends of one simulated connection, with the real codec and the real TLS. LinkChannel and
// SecureHandshake use a socket; here there are pieces of bytes. OpenSSL's random numbers come from
// the seed too.

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/secure/tls.h"
#include "tests/sim/packet.h"
#include "tests/sim/random.h"

namespace cpprun::sim {

class SecureWire {
 public:
  // `agent` and `coordinator` are the random streams of the two ends.
  SecureWire(Random agent, Random coordinator);

  // The first bytes of the agent's end.
  std::string begin();
  // The bytes of a packet for the other end.
  std::string say(Side from, const Packet& packet);
  // Announces the end.
  std::string finish(Side from);

  struct Heard {
    std::string answer = {};  // to be sent back at once
    bool is_begun = false;    // the other side is authenticated and uses the link protocol
    std::vector<Packet> packets = {};
    std::string reason = {};  // not empty: why the connection failed
    bool is_true = true;      // the packets are those that the other side has sent, in order
  };
  Heard hear(Side at, std::string_view bytes);

 private:
  struct End {
    std::unique_ptr<SecureChannel> channel = {};
    Random random{0};
    std::string inbox = {};
    std::deque<std::string> said = {};  // frames that the other end has not received yet
    bool has_begun = false;
  };
  void take_frames(Side side, Heard& heard);
  End& at(Side side) { return ends_[static_cast<std::size_t>(side)]; }

  std::array<End, 2> ends_;
};

}  // namespace cpprun::sim
