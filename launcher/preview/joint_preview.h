// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The previews of all hosts put together. Whoever knows how many workers each of them starts knows
// their ranks, which no node knows alone.

#include <string>
#include <vector>

#include "launcher/preview/preview.h"

namespace cpprun {

struct HostPreview {
  std::string name;  // as --hosts calls it
  Preview preview;   // with one node
  friend bool operator==(const HostPreview&, const HostPreview&) = default;
};

// `hosts`: at least one, in the order of their ranks. `is_port_given`: otherwise the first host
// finds one that is free, and what it has said is none.
Preview joint_preview(std::vector<HostPreview> hosts, bool is_port_given);

}  // namespace cpprun
