// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What --hosts and --hostfile come to: all that the console needs to start a job on those hosts.

#include <string>
#include <vector>

#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/message.h"

namespace cpprun::fanout {

struct Request {
  Wanted wanted;
  // Without what only the console's process knows: its folder, and the secrets.
  JobTerms job;
};

}  // namespace cpprun::fanout
