// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/etcd/election_view.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "proto/fields_json.h"
#include "proto/parse_json.h"
#include "rendezvous/etcd/bounds.h"

namespace cpprun {

namespace {

using Json = nlohmann::json;
using std::chrono::milliseconds;

Result<Json> parse(std::string_view text) {
  // The values are flat; anything larger or deeper is invalid.
  constexpr std::size_t bytes_max =
      2 * bounds::election_card_bytes_max +
      bounds::election_synced_max * 4 * bounds::election_name_bytes_max;
  constexpr std::size_t depth_max = 2;
  if (text.size() > bytes_max) {
    return failure(fmt::format("it has {} bytes; the maximum is {}", text.size(), bytes_max));
  }
  Json json = parse_json(text, depth_max);
  if (!json.is_object()) return failure("not a JSON object");
  return json;
}

tl::unexpected<Error> has_no(const char* name) {
  return failure(fmt::format("no valid {}", name));
}

bool is_name(const Json& json) {
  if (!json.is_string()) return false;
  const auto size = json.get_ref<const std::string&>().size();
  return size > 0 && size <= bounds::election_name_bytes_max;
}

// Empty: not a list of names.
std::optional<std::vector<std::string>> names_in(const Json& json) {
  if (!json.is_array() || json.size() > bounds::election_synced_max) return std::nullopt;
  std::vector<std::string> names;
  for (const Json& name : json) {
    if (!is_name(name)) return std::nullopt;
    names.push_back(name.get<std::string>());
  }
  return names;
}

bool is_count(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_number_unsigned();
}

}  // namespace

std::string to_json(const LeaderCard& leader) {
  return text_of_json(Json{{"name", leader.name}, {"card", leader.card}});
}

std::string to_json(const Synced& synced) {
  Json json{{"names", synced.names},
            {"term", synced.term},
            {"ttl_ms", std::chrono::duration_cast<milliseconds>(synced.ttl).count()}};
  if (synced.before) json["before"] = *synced.before;
  if (synced.epoch != 0) json["epoch"] = synced.epoch;
  if (synced.is_vacant) json["vacant"] = true;
  if (!synced.successor.empty()) json["heir"] = synced.successor;
  return text_of_json(json);
}

Result<LeaderCard> read_leader_card(std::string_view text) {
  const auto json = parse(text);
  if (!json) return tl::unexpected<Error>(json.error());
  const auto name = json->find("name");
  if (name == json->end() || !is_name(*name)) return has_no("name");
  const auto card = json->find("card");
  if (card == json->end() || !card->is_string()) return has_no("card");
  LeaderCard leader{name->get<std::string>(), card->get<std::string>()};
  if (leader.card.size() > bounds::election_card_bytes_max) return has_no("card");
  return leader;
}

Result<Synced> read_synced(std::string_view text) {
  const auto json = parse(text);
  if (!json) return tl::unexpected<Error>(json.error());
  Synced synced;
  const auto names = json->find("names");
  auto read = names == json->end() ? std::nullopt : names_in(*names);
  if (!read) return has_no("names");
  synced.names = *std::move(read);
  if (const auto before = json->find("before"); before != json->end()) {
    synced.before = names_in(*before);
    if (!synced.before) return has_no("before");
  }
  if (!is_count(*json, "term")) return has_no("term");
  if (!is_count(*json, "epoch")) return has_no("epoch");
  synced.term = json->value("term", std::uint64_t{0});
  synced.epoch = static_cast<etcd::Revision>(json->value("epoch", std::uint64_t{0}));
  if (synced.epoch < 0) return has_no("epoch");
  if (!is_count(*json, "ttl_ms")) return has_no("ttl_ms");
  const auto ttl = json->value("ttl_ms", std::uint64_t{0});
  const auto ttl_max = std::chrono::duration_cast<milliseconds>(bounds::election_ttl_max).count();
  if (ttl > static_cast<std::uint64_t>(ttl_max)) return has_no("ttl_ms");
  synced.ttl = milliseconds(ttl);
  const auto vacant = json->find("vacant");
  if (vacant != json->end() && !vacant->is_boolean()) return has_no("vacant");
  synced.is_vacant = vacant != json->end() && vacant->get<bool>();
  const auto successor = json->find("heir");
  if (successor != json->end() && !is_name(*successor)) return has_no("heir");
  if (successor != json->end()) synced.successor = successor->get<std::string>();
  return synced;
}

}  // namespace cpprun
