// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A socket that a service manager has opened for us and passed on, by the protocol of systemd:
// sd_listen_fds(3). Pure: what the environment says, and whether what was passed can be served on.

#include <array>
#include <string>
#include <vector>

#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun {

// What a service manager tells us alone: nobody whom we start is to take it for their own.
inline constexpr std::array service_variables = {"LISTEN_FDS", "LISTEN_PID", "LISTEN_PIDFDID",
                                                 "LISTEN_FDNAMES", "NOTIFY_SOCKET"};

inline constexpr int first_passed_descriptor = 3;
// More are not looked at: one is all that is taken.
inline constexpr int passed_descriptors_shown_max = 4;

struct Activation {
  int count = 0;       // of descriptors from the first on
  std::string remark;  // for the log, where the variables are there but not for us; else empty
};

// `pid`: ours. Fails where the variables are meant for us and cannot be understood.
Result<Activation> activation_of(const Environment& environment, int pid);

// What a passed descriptor is.
struct PassedFacts {
  enum class Kind { not_open, no_socket, tcp, udp, unix_socket, other_socket };
  Kind kind = Kind::not_open;
  bool listens = false;
  std::string address = {};  // of a TCP or UDP socket: "[::]:29400"
};

// "descriptor 3 is a UDP socket on [::]:29400".
std::string passed_text(int descriptor, const PassedFacts& facts);

// Whether these, from the first on, are the one listening TCP socket that can be served on. `count`
// may be more than were looked at.
Result<void> judge_passed(int count, const std::vector<PassedFacts>& facts);

}  // namespace cpprun
