// SPDX-License-Identifier: BSD-3-Clause
#include <nlohmann/json.hpp>

#include "launcher/doctor/findings.h"

namespace cpprun::doctor {

namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json limit_view(const std::optional<std::uint64_t>& limit) {
  return limit ? Json(*limit) : Json(nullptr);
}

Json disk_view(const Disk& disk) {
  return {{"path", disk.path},
          {"bytes", disk.size},
          {"free_bytes", disk.free},
          {"refusal", or_null(disk.refusal)}};
}

const char* word_of(Reached reached) {
  switch (reached) {
    case Reached::yes:
      return "yes";
    case Reached::refused:
      return "refused";
    case Reached::silent:
      return "silent";
    case Reached::unresolved:
      return "unresolved";
    case Reached::unrelated:
      return "stranger";
    case Reached::failed:
      return "failed";
    case Reached::not_tried:
      return "not_tried";
  }
  return "";
}

Json facts_view(const HostFacts& facts) {
  return {{"host", facts.host},
          {"cpprun", or_null(facts.cpprun)},
          {"gpus", facts.gpus.usable},
          {"gpus_of_the_machine", gpus_there(facts.gpus)},
          {"open_files_max", limit_view(facts.limits.open_files)},
          {"processes_max", limit_view(facts.limits.processes)},
          {"locked_bytes_max", limit_view(facts.limits.locked_bytes)},
          {"infiniband", facts.has_infiniband},
          {"shared_memory", disk_view(facts.shared_memory)},
          {"temporary", disk_view(facts.temporary)},
          {"port", facts.port == 0 ? Json(nullptr) : Json(facts.port)}};
}

Json host_json(const ExaminedHost& host) {
  Json json;
  json["name"] = title_of(host);
  json["address"] = or_null(host.address);
  json["not_examined"] = or_null(host.gone);
  json["facts"] = host.facts ? facts_view(*host.facts) : Json(nullptr);
  json["clock_ahead_seconds"] = host.clock ? Json(in_seconds(host.clock->offset)) : Json(nullptr);
  json["clock_error_seconds"] = host.clock ? Json(in_seconds(host.clock->error)) : Json(nullptr);
  return json;
}

}  // namespace

std::string doctor_json(const std::vector<ExaminedHost>& hosts,
                        const std::vector<Finding>& findings) {
  Json json;
  json["hosts"] = Json::array();
  json["pairs"] = Json::array();
  for (const auto& host : hosts) {
    json["hosts"].push_back(host_json(host));
    for (const auto& dialed : host.dialed) {
      std::string other;
      for (const auto& each : hosts) {
        if (each.member.number == dialed.number) other = title_of(each);
      }
      json["pairs"].push_back({{"from", title_of(host)},
                               {"to", other},
                               {"resolved", dialed.addresses},
                               {"why_unresolved", or_null(dialed.why_unresolved)},
                               {"reached", word_of(dialed.reached)},
                               {"where", or_null(dialed.where)},
                               {"why", or_null(dialed.why)}});
    }
  }
  json["findings"] = Json::array();
  for (const auto& finding : findings) {
    json["findings"].push_back(
        {{"host", finding.host}, {"what", finding.what}, {"cure", finding.hint}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cpprun::doctor
