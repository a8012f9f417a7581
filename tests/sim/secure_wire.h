// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Both ends of one simulated connection on which frames pass through the real codec and the real
// TLS: what LinkChannel and SecureHandshake do with a socket is done here with pieces of bytes.
// OpenSSL's random numbers come from the seed too.

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
  // `agent` and `coordinator` are what each end draws from.
  SecureWire(Random agent, Random coordinator);

  // What the agent's end sends first.
  std::string begin();
  // Those bytes for the other end.
  std::string say(Side from, const Packet& packet);
  // It says that nothing follows.
  std::string finish(Side from);

  struct Heard {
    std::string answer = {};  // to be sent back at once
    bool is_begun = false;    // the other side is who it should be, and speaks the link
    std::vector<Packet> packets = {};
    std::string reason = {};  // not empty: why it is over, neither side having closed it
    bool is_true = true;      // the packets are what the other side has said, in that order
  };
  Heard hear(Side at, std::string_view bytes);

 private:
  struct End {
    std::unique_ptr<SecureChannel> channel = {};
    Random random{0};
    std::string inbox = {};
    std::deque<std::string> said = {};  // frames that the other end has not heard yet
    bool has_begun = false;
  };
  void take_frames(Side side, Heard& heard);
  End& at(Side side) { return ends_[static_cast<std::size_t>(side)]; }

  std::array<End, 2> ends_;
};

}  // namespace cpprun::sim
