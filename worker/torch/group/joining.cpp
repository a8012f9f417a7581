// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/joining.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "proto/text.h"

namespace cpprun {
namespace {

std::string place_of(const Placement& placement) {
  const MeetingPoint& store = placement.context.store;
  switch (placement.meeting) {
    case Meeting::tcp:
      return fmt::format("the store at {}:{}", store.address, store.port);
    case Meeting::file:
      return fmt::format("the store in the file {}", placement.file);
    case Meeting::alone:
    case Meeting::given:
      break;
  }
  return "the given store";
}

std::string store_advice(const Placement& placement, const std::string& cause) {
  if (placement.meeting == Meeting::file) {
    return "does its folder exist, may this user write there, and is it the same for all ranks?";
  }
  if (placement.meeting != Meeting::tcp) return "is whoever serves it alive?";
  if (serves_store(placement)) {
    return cause.find("EADDRINUSE") != std::string::npos
               ? "the port is taken by another program: choose another one, the same for all ranks"
               : "rank 0 serves this store itself: is that an address of this machine, and the "
                 "port free?";
  }
  return placement.context.store.hosted_by_launcher
             ? "the launcher serves this store: is it still alive, and do MASTER_ADDR and "
               "MASTER_PORT name it?"
             : "rank 0 serves this store: did it start, is this the address of its machine, and "
               "does a firewall let the port through?";
}

std::string ranks_advice(const Placement& placement, const std::string& cause,
                         const std::vector<int>& known_missing) {
  const Context& context = placement.context;
  if (cause.find("Unable to find address for") != std::string::npos) {
    return fmt::format(
        "GLOO_SOCKET_IFNAME={} must name interfaces of this machine that have an address",
        context.gloo_interfaces);
  }
  const std::vector<int> missing = known_missing.empty() ? ranks_waited_for(cause) : known_missing;
  if (!missing.empty()) {
    return fmt::format("rank {} did not arrive: look at its output", fmt::join(missing, ", "));
  }
  if (placement.meeting == Meeting::file) {
    return fmt::format("if {} is left from an earlier run, remove it and start again",
                       placement.file);
  }
  return fmt::format("do all machines reach each other over the chosen interface ({})?",
                     context.gloo_interfaces.empty()
                         ? "the one of the host name; GLOO_SOCKET_IFNAME chooses"
                         : "GLOO_SOCKET_IFNAME=" + context.gloo_interfaces);
}

}  // namespace

std::string join_failure(const Placement& placement, JoinStage stage,
                         std::chrono::milliseconds waited, const std::string& cause,
                         const std::vector<int>& missing) {
  const Context& context = placement.context;
  const std::string who = fmt::format(
      "cannot join the process group as rank {} of {}: ", context.rank.value, context.world_size);
  const std::string where = place_of(placement);
  const std::string limit =
      fmt::format("within {:.3g} s", std::chrono::duration<double>(waited).count());
  switch (stage) {
    case JoinStage::store:
      return fmt::format(
          "{}{} {}: {} ({})", who, where,
          serves_store(placement) ? "cannot be served" : fmt::format("was not reached {}", limit),
          cause, store_advice(placement, cause));
    case JoinStage::ranks:
      return fmt::format("{}{} answered, but the other ranks were not reached {}: {} ({})", who,
                         where, limit, cause, ranks_advice(placement, cause, missing));
  }
  return who + cause;
}

std::string taken_rank(const Placement& placement) {
  const Context& context = placement.context;
  const std::string who =
      fmt::format("cannot join the process group as rank {} of {}: {} already knows a rank {}: ",
                  context.rank.value, context.world_size, place_of(placement), context.rank.value);
  if (placement.meeting == Meeting::file) {
    return fmt::format(
        "{}the file is left from an earlier run (remove it and start again), or two processes were "
        "given this rank",
        who);
  }
  return who +
         "two processes were given this rank, or this process had a group there before (a new one "
         "needs new_group, or another port)";
}

std::vector<int> ranks_waited_for(const std::string& cause) {
  constexpr std::string_view marker = "keys: ";
  const std::size_t found = cause.find(marker);
  std::vector<int> ranks;
  if (found == std::string::npos) return ranks;
  std::size_t at = found + marker.size();
  while (at < cause.size()) {
    const std::size_t end = std::min(cause.find_first_of(", ", at), cause.size());
    const std::string key = cause.substr(at, end - at);
    if (key.find("default_pg") != std::string::npos) {
      const auto rank = exact_number<int>(std::string_view(key).substr(key.rfind('/') + 1));
      if (rank) ranks.push_back(*rank);
    }
    at = cause.find_first_not_of(", ", end);
  }
  return ranks;
}

}  // namespace cpprun
