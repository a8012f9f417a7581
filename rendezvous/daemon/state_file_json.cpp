// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/daemon/state_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "proto/parse_json.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;

constexpr std::string_view begins = R"({"cpprund":)";

}  // namespace

std::string self_record_bytes(const SelfRecord& record) {
  return Json{{"cpprund",
               {{"life", record.life},
                {"boot", record.boot},
                {"set", record.set},
                {"cluster", record.cluster},
                {"epoch", record.epoch},
                {"has_all", record.has_all},
                {"is_synced", record.is_synced}}}}
      .dump();
}

bool is_self_record(std::string_view bytes) {
  return bytes.starts_with(begins);
}

Result<SelfRecord> read_self_record(std::string_view bytes) {
  const Json json = parse_json(bytes);
  if (!json.is_object() || !json.contains("cpprund") || !json["cpprund"].is_object()) {
    return failure("is not a record of a cpprund");
  }
  const Json& own = json["cpprund"];
  const auto is = [&own](const char* name, auto right) {
    return own.contains(name) && (own[name].*right)();
  };
  const bool is_right = is("life", &Json::is_string) && is("boot", &Json::is_string) &&
                        is("set", &Json::is_string) && is("cluster", &Json::is_string) &&
                        is("epoch", &Json::is_number_unsigned) &&
                        is("has_all", &Json::is_boolean) && is("is_synced", &Json::is_boolean);
  if (!is_right) return failure("is an incomplete record of a cpprund");
  return SelfRecord{.life = own["life"],
                    .boot = own["boot"],
                    .set = own["set"],
                    .cluster = own["cluster"],
                    .epoch = own["epoch"],
                    .has_all = own["has_all"],
                    .is_synced = own["is_synced"]};
}

std::optional<std::string> objection_to(const SelfRecord& found, std::string_view set) {
  if (found.set == set) return std::nullopt;
  return fmt::format(
      "has the jobs of cluster \"{}\", but {}; for these jobs, use --cluster={} and the --etcd of "
      "that cluster, otherwise another directory",
      found.set,
      set.empty() ? "this cpprund has no --etcd"
                  : fmt::format("this cpprund belongs to \"{}\"", set),
      found.set);
}

// Synced state survives a power failure. Written state survives any other end of the process.
std::optional<std::string> life_that_goes_on(const SelfRecord& found, std::string_view boot) {
  const bool has_kept_it = found.is_synced || (!boot.empty() && found.boot == boot);
  if (!found.has_all || !has_kept_it || found.life.empty()) return std::nullopt;
  return found.life;
}

}  // namespace cpprun
