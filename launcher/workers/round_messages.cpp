// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/workers/round_messages.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>

#include "proto/environment.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

std::string place_message(const WorkerSpec& spec, RoundNumber round) {
  using namespace contract;
  constexpr std::array names = {rank,          local_rank,       group_rank,       role_rank,
                                world_size,    local_world_size, group_world_size, role_world_size,
                                restart_count, master_addr,      master_port};
  std::string message = fmt::format("place round={0} uuid={0}", round.value);
  for (const std::string_view name : names) {
    const std::string* const value = find_variable(spec.variables, name);
    if (value != nullptr) message += fmt::format(" {}={}", name, *value);
  }
  return message;
}

std::string broken_message(RoundNumber round) {
  return fmt::format("broken round={}", round.value);
}

Result<supervisor::Rejoins> parse_waits(std::string_view message) {
  constexpr std::string_view rank_key = "local_rank=";
  constexpr std::string_view round_key = "round=";
  const auto words = split(trimmed(message), ' ');
  if (words.size() == 3 && words[0] == "waits" && words[1].starts_with(rank_key) &&
      words[2].starts_with(round_key)) {
    const auto rank = exact_number<int>(words[1].substr(rank_key.size()));
    const auto round = exact_number<std::uint32_t>(words[2].substr(round_key.size()));
    if (rank && *rank >= 0 && round) {
      return supervisor::Rejoins{LocalRank{*rank}, RoundNumber{*round}};
    }
  }
  return failure(
      fmt::format("expected \"waits local_rank=N round=N\", not \"{}\"", plain_line(message, 80)));
}

}  // namespace cpprun
