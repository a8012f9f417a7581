// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/own_place.h"

namespace cpprun {

std::optional<agent::LinkUp> place_alone(const Config& config,
                                         const std::optional<std::string>& literal) {
  if (config.nodes_max != 1) return std::nullopt;
  agent::LinkUp place{"127.0.0.1"};
  if (literal) place.master_addresses.push_back(*literal);
  return place;
}

agent::LinkUp place_among_nodes(const std::vector<std::string>& addresses,
                                const Result<std::string>& way) {
  // No way to it may be right as well: behind a NAT or a Service the address is nobody's here.
  return {way.value_or(std::string{}), addresses};
}

}  // namespace cpprun
