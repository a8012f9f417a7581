// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "proto/text.h"

namespace cpprun {

namespace {

constexpr const char* forms =
    "valid init methods are env://, tcp://host:port and file:///path; without a launcher, add "
    "?rank=…&world_size=…";

struct Address {
  std::string host;
  int port = 0;
};

struct Url {
  std::string scheme;
  std::string body;  // between "://" and "?"
  std::optional<int> rank;
  std::optional<int> world_size;
};

Result<Url> parse_query(Url url, const std::string& method, std::string_view query) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = pair.find('=');
    const std::string_view name = pair.substr(0, equals);
    const auto number = equals == std::string_view::npos
                            ? std::nullopt
                            : exact_number<int>(pair.substr(equals + 1));
    if (!number || (name != "rank" && name != "world_size")) {
      return failure(
          fmt::format("{}: \"{}\" is neither rank=<number> nor world_size=<number>", method, pair));
    }
    (name == "rank" ? url.rank : url.world_size) = number;
  }
  return url;
}

Result<Url> parse_url(const std::string& method) {
  constexpr std::string_view slashes = "://";
  const std::size_t found = method.find(slashes);
  if (found == std::string::npos) return failure(fmt::format("\"{}\": {}", method, forms));
  Url url;
  url.scheme = method.substr(0, found);
  const std::size_t begin = found + slashes.size();
  const std::size_t question = std::min(method.find('?', begin), method.size());
  url.body = method.substr(begin, question - begin);
  if (question == method.size()) return url;
  return parse_query(std::move(url), method, std::string_view(method).substr(question + 1));
}

Result<Address> parse_address(const std::string& method, const std::string& body) {
  const std::size_t colon = std::min(body.rfind(':'), body.size());
  const int port =
      exact_number<int>(std::string_view(body).substr(std::min(colon + 1, body.size())))
          .value_or(0);
  std::string host = body.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host.empty()) return failure(fmt::format("{} has no host: use tcp://host:port", method));
  if (port < 1 || port > std::numeric_limits<std::uint16_t>::max()) {
    return failure(fmt::format(
        "{} has no port from 1 to 65535: use tcp://host:port, the same on every rank", method));
  }
  return Address{host, port};
}

// The option and the URL may both set the value, but then they must agree.
Result<std::optional<int>> agree(const char* name, std::optional<int> option,
                                 std::optional<int> query, const std::string& method) {
  if (option && query && *option != *query) {
    return failure(fmt::format("{} is {} in the options and {} in {}: set it only once", name,
                               *option, *query, method));
  }
  return option ? option : query;
}

Result<Context> number(Context context, std::optional<int> rank, std::optional<int> world_size,
                       const std::string& method) {
  // Defaults would make every process rank 0 of its own world, and each would train alone.
  const bool unlaunched = context.launched_by == LaunchedBy::none;
  if (unlaunched && rank.has_value() != world_size.has_value()) {
    return failure(fmt::format("{}: {} is missing: set both rank and world_size", method,
                               rank ? "world_size" : "rank"));
  }
  if (unlaunched && !rank && !method.starts_with("env://")) {
    return failure(
        fmt::format("{}: rank and world_size are missing, and no launcher has set them: add "
                    "?rank=<number>&world_size=<number>, or start the program with cpprun",
                    method));
  }
  if (world_size) context.world_size = *world_size;
  if (rank) context.rank = Rank{*rank};
  if (context.world_size < 1) {
    return failure(fmt::format("world_size={} must be at least 1", context.world_size));
  }
  if (context.rank.value < 0 || context.rank.value >= context.world_size) {
    return failure(fmt::format("rank={} must be from 0 to {}: world_size is {}", context.rank.value,
                               context.world_size - 1, context.world_size));
  }
  return context;
}

Result<Placement> place_by_environment(Placement placement, const std::string& method) {
  const MeetingPoint& store = placement.context.store;
  // A launcher's store is used even for one rank. Without it, a single rank needs no network.
  if (placement.context.alone() && !store.hosted_by_launcher) {
    placement.meeting = Meeting::alone;
    return placement;
  }
  if (store.address.empty() || store.port == 0) {
    return failure(
        fmt::format("{} with world_size={}: {} is not set: set MASTER_ADDR to the host of rank 0 "
                    "and MASTER_PORT to a free port there, or use tcp://host:port",
                    method, placement.context.world_size,
                    store.address.empty() ? "MASTER_ADDR" : "MASTER_PORT"));
  }
  placement.meeting = Meeting::tcp;
  return placement;
}

Result<Placement> place_by_tcp(Placement placement, const std::string& method,
                               const std::string& body) {
  const auto address = parse_address(method, body);
  if (!address) return tl::unexpected<Error>(address.error());
  MeetingPoint& store = placement.context.store;
  // The address of the launcher's own store means that store.
  const bool launchers =
      store.hosted_by_launcher && store.address == address->host && store.port == address->port;
  store.hosted_by_launcher = launchers;
  store.address = address->host;
  store.port = static_cast<std::uint16_t>(address->port);
  placement.meeting = Meeting::tcp;
  return placement;
}

}  // namespace

Result<Placement> place(const Context& context, const PlacementRequest& request) {
  const auto url = parse_url(request.init_method);
  if (!url) return tl::unexpected<Error>(url.error());
  const std::string& method = request.init_method;
  if (url->scheme != "env" && url->scheme != "tcp" && url->scheme != "file") {
    return failure(fmt::format("\"{}\": {}", method, forms));
  }
  const auto rank = agree("rank", request.rank, url->rank, method);
  if (!rank) return tl::unexpected<Error>(rank.error());
  const auto world_size = agree("world_size", request.world_size, url->world_size, method);
  if (!world_size) return tl::unexpected<Error>(world_size.error());
  const auto numbered = number(context, *rank, *world_size, method);
  if (!numbered) return tl::unexpected<Error>(numbered.error());
  Placement placement{.context = *numbered, .meeting = Meeting::given, .file = {}};
  if (request.store_given) return placement;
  if (url->scheme == "env") return place_by_environment(std::move(placement), method);
  if (url->scheme == "tcp") return place_by_tcp(std::move(placement), method, url->body);
  if (!url->body.starts_with('/') || url->body.ends_with('/')) {
    return failure(fmt::format(
        "{}: use three slashes and the absolute path of a new file in a directory that all ranks "
        "share: file:///shared/job.init",
        method));
  }
  placement.meeting = Meeting::file;
  placement.file = url->body;
  return placement;
}

bool serves_store(const Placement& placement) {
  return placement.meeting == Meeting::tcp && placement.context.leads() &&
         !placement.context.store.hosted_by_launcher;
}

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
    return "check that its directory exists, is writable and is the same for all ranks";
  }
  if (placement.meeting != Meeting::tcp) return "check that the process that serves it is running";
  if (serves_store(placement)) {
    return cause.find("EADDRINUSE") != std::string::npos
               ? "another program uses the port: use another port, the same for all ranks"
               : "rank 0 serves this store: check that the address belongs to this machine "
                 "and that the port is free";
  }
  return placement.context.store.hosted_by_launcher
             ? "the launcher serves this store: check that it still runs, and that MASTER_ADDR "
               "and MASTER_PORT are its address"
             : "rank 0 serves this store: check that rank 0 has started, that this is the "
               "address of its machine, and that no firewall blocks the port";
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
    return fmt::format("rank {} did not join: see its output", fmt::join(missing, ", "));
  }
  if (placement.meeting == Meeting::file) {
    return fmt::format("if {} is left from an earlier run, remove it and start again",
                       placement.file);
  }
  return fmt::format(
      "check that all machines can connect to each other over the chosen interface ({})",
      context.gloo_interfaces.empty()
          ? "the interface of the host name; set GLOO_SOCKET_IFNAME to choose another"
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
      return fmt::format("{}{} {}: {} ({})", who, where,
                         serves_store(placement) ? "could not be started"
                                                 : fmt::format("was not reached {}", limit),
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
      fmt::format("cannot join the process group as rank {} of {}: {} already has a rank {}: ",
                  context.rank.value, context.world_size, place_of(placement), context.rank.value);
  if (placement.meeting == Meeting::file) {
    return fmt::format(
        "{}the file is left from an earlier run (remove it and start again), or two processes have "
        "this rank",
        who);
  }
  return who +
         "two processes have this rank, or this process already had a group there (use new_group, "
         "or another port)";
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
