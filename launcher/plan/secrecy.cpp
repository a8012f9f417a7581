// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/plan/secrecy.h"

#include <fmt/format.h>

#include "rendezvous/secret_place.h"

namespace cpprun {

bool uses_secret(const Config& config) {
  return config.rendezvous != RendezvousMode::standalone;
}

StoreWay settle_store(const Config& config, bool has_secret) {
  if (config.store != StoreWay::automatic) return config.store;
  // A store that workers reach through their links goes on under the next cpprund that leads.
  if (config.meets_at_a_set()) return StoreWay::local;
  return has_secret ? StoreWay::local : StoreWay::direct;
}

std::optional<std::string> missing_secret(const Config& config) {
  if (!config.require_secret || config.nodes_max == 1) return std::nullopt;
  return "CPPRUN_REQUIRE_SECRET=1 asks for a secret that the nodes of a job share, and this node "
         "has none: \"cpprunctl keygen\" makes one, and every node needs the same";
}

std::optional<std::string> open_port_note(const Config& config, std::string_view address) {
  if (config.insecure || config.nodes_max == 1) return std::nullopt;
  return fmt::format(
      "this job's port {} is open to everybody who reaches {}: \"cpprunctl keygen\" makes a secret",
      config.endpoint.port, address);
}

Environment without_secret_place(Environment environment) {
  // C++20 erases no key of another type.
  const auto found = environment.find(secret_file_variable);
  if (found != environment.end()) environment.erase(found);
  return environment;
}

}  // namespace cpprun
