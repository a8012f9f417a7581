#include "worker/torch/joining.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

namespace cpprun {
namespace {

std::string store_advice(const Context& context) {
  if (serves_store(context)) {
    return "this rank serves the store itself: is the port taken by another program?";
  }
  return context.store.hosted_by_launcher
             ? "the launcher serves this store: is it still alive, and do MASTER_ADDR and "
               "MASTER_PORT name it?"
             : "rank 0 serves this store: did it start, does MASTER_ADDR name its machine, and "
               "does a firewall let the port through?";
}

std::string ranks_advice(const Context& context, const std::string& cause) {
  if (cause.find("Unable to find address for") != std::string::npos) {
    return fmt::format(
        "GLOO_SOCKET_IFNAME={} must name interfaces of this machine that have an address",
        context.gloo_interfaces);
  }
  const std::vector<int> missing = ranks_waited_for(cause);
  if (!missing.empty()) {
    return fmt::format("rank {} did not arrive: look at its output", fmt::join(missing, ", "));
  }
  return fmt::format("do all machines reach each other over the chosen interface ({})?",
                     context.gloo_interfaces.empty()
                         ? "the one of the host name; GLOO_SOCKET_IFNAME chooses"
                         : "GLOO_SOCKET_IFNAME=" + context.gloo_interfaces);
}

}  // namespace

bool serves_store(const Context& context) {
  return context.leads() && !context.store.hosted_by_launcher && !context.store.address.empty();
}

std::string join_failure(const Context& context, JoinStage stage, std::chrono::milliseconds waited,
                         const std::string& cause) {
  const std::string who = fmt::format(
      "cannot join the process group as rank {} of {}: ", context.rank.value, context.world_size);
  const std::string where = fmt::format("{}:{}", context.store.address, context.store.port);
  const std::string limit =
      fmt::format("within {:.0f} s", std::chrono::duration<double>(waited).count());
  switch (stage) {
    case JoinStage::store:
      if (serves_store(context)) {
        return fmt::format("{}the store at {} cannot be served: {} ({})", who, where, cause,
                           store_advice(context));
      }
      return fmt::format("{}the store at {} was not reached {}: {} ({})", who, where, limit, cause,
                         store_advice(context));
    case JoinStage::ranks:
      return fmt::format(
          "{}the store at {} answered, but the other ranks were not reached {}: "
          "{} ({})",
          who, where, limit, cause, ranks_advice(context, cause));
  }
  return who + cause;
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
    const std::size_t slash = key.rfind('/');
    int rank = 0;
    const char* const first = key.data() + (slash == std::string::npos ? key.size() : slash + 1);
    const auto parsed = std::from_chars(first, key.data() + key.size(), rank);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
    if (key.find("default_pg") != std::string::npos && whole) ranks.push_back(rank);
    at = cause.find_first_not_of(", ", end);
  }
  return ranks;
}

}  // namespace cpprun
