// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <nlohmann/json.hpp>

#include "proto/parse_json.h"
#include "proto/state_machine.h"

namespace cpprun::doctor {

namespace {

using Json = nlohmann::ordered_json;

std::int64_t microseconds(WallTime time) {
  return time.time_since_epoch().count();
}

WallTime wall_time(const Json& json) {
  return WallTime{WallTime::duration{json.get<std::int64_t>()}};
}

Json limit_json(const std::optional<std::uint64_t>& limit) {
  return limit ? Json(*limit) : Json(nullptr);
}

std::optional<std::uint64_t> read_limit(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<std::uint64_t>());
}

Json disk_json(const Disk& disk) {
  return {{"path", disk.path}, {"size", disk.size}, {"free", disk.free}, {"refusal", disk.refusal}};
}

Disk read_disk(const Json& json) {
  return {.path = json.at("path").get<std::string>(),
          .size = json.at("size").get<std::uint64_t>(),
          .free = json.at("free").get<std::uint64_t>(),
          .refusal = json.at("refusal").get<std::string>()};
}

Json facts_json(const HostFacts& facts) {
  return {{"host", facts.host},
          {"version", facts.version},
          {"cpprun", facts.cpprun},
          {"network", facts.network},
          {"gpus_on_bus", facts.gpus.on_bus},
          {"gpus_in_driver", facts.gpus.in_driver},
          {"gpus_usable", facts.gpus.usable},
          {"missing_gpus", facts.missing_gpus},
          {"infiniband", facts.has_infiniband},
          {"open_files", limit_json(facts.limits.open_files)},
          {"locked_bytes", limit_json(facts.limits.locked_bytes)},
          {"processes", limit_json(facts.limits.processes)},
          {"shared_memory", disk_json(facts.shared_memory)},
          {"temporary", disk_json(facts.temporary)},
          {"asked", microseconds(facts.asked)},
          {"answered", microseconds(facts.answered)},
          {"port", facts.port},
          {"why_no_port", facts.why_no_port},
          {"greeting", facts.greeting}};
}

HostFacts read_facts(const Json& json) {
  const auto text = [&](const char* name) { return json.at(name).get<std::string>(); };
  const auto number = [&](const char* name) { return json.at(name).get<int>(); };
  return {.host = text("host"),
          .version = text("version"),
          .cpprun = text("cpprun"),
          .network = text("network"),
          .gpus = {.on_bus = number("gpus_on_bus"),
                   .in_driver = number("gpus_in_driver"),
                   .usable = number("gpus_usable")},
          .missing_gpus = text("missing_gpus"),
          .has_infiniband = json.at("infiniband").get<bool>(),
          .limits = {.open_files = read_limit(json.at("open_files")),
                     .locked_bytes = read_limit(json.at("locked_bytes")),
                     .processes = read_limit(json.at("processes"))},
          .shared_memory = read_disk(json.at("shared_memory")),
          .temporary = read_disk(json.at("temporary")),
          .asked = wall_time(json.at("asked")),
          .answered = wall_time(json.at("answered")),
          .port = number("port"),
          .why_no_port = text("why_no_port"),
          .greeting = text("greeting")};
}

Json dialed_json(const Dialed& dialed) {
  return {{"number", dialed.number},
          {"addresses", dialed.addresses},
          {"why_unresolved", dialed.why_unresolved},
          {"reached", static_cast<int>(dialed.reached)},
          {"where", dialed.where},
          {"why", dialed.why}};
}

Dialed read_dialed(const Json& json) {
  return {.number = json.at("number").get<int>(),
          .addresses = json.at("addresses").get<std::vector<std::string>>(),
          .why_unresolved = json.at("why_unresolved").get<std::string>(),
          .reached = static_cast<Reached>(json.at("reached").get<int>()),
          .where = json.at("where").get<std::string>(),
          .why = json.at("why").get<std::string>()};
}

Json target_json(const Target& target) {
  return {{"number", target.number},
          {"name", target.name},
          {"address", target.address},
          {"port", target.port},
          {"greeting", target.greeting}};
}

Target read_target(const Json& json) {
  return {.number = json.at("number").get<int>(),
          .name = json.at("name").get<std::string>(),
          .address = json.at("address").get<std::string>(),
          .port = json.at("port").get<int>(),
          .greeting = json.at("greeting").get<std::string>()};
}

template <class List, class Write>
Json list_json(const List& list, const Write& write) {
  Json json = Json::array();
  for (const auto& each : list) json.push_back(write(each));
  return json;
}

// Paths and names may be invalid UTF-8, which is replaced.
std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <class Value, class Read>
Result<Value> read_with(std::string_view text, const Read& read) {
  try {
    const auto json = parse_json<Json>(text);
    if (json.is_discarded()) return failure("invalid message: not JSON from cpprunctl");
    return read(json);
  } catch (const Json::exception& wrong) {
    return failure(std::string("invalid message: ") + wrong.what());
  }
}

}  // namespace

std::string to_json(const Question& question) {
  return text_of(std::visit(Overloaded{
                                [](const AskFacts& ask) {
                                  return Json{{"port", ask.port}};
                                },
                                [](const AskDial& ask) {
                                  return Json{{"dial", list_json(ask.others, target_json)}};
                                },
                            },
                            question));
}

Result<Question> read_question(std::string_view json) {
  return read_with<Question>(json, [](const Json& read) -> Question {
    if (!read.contains("dial")) return AskFacts{read.at("port").get<int>()};
    AskDial ask;
    for (const auto& each : read.at("dial")) ask.others.push_back(read_target(each));
    return ask;
  });
}

std::string to_json(const Reading& reading) {
  return text_of(std::visit(Overloaded{
                                [](const HostFacts& facts) { return facts_json(facts); },
                                [](const std::vector<Dialed>& dialed) {
                                  return Json{{"dialed", list_json(dialed, dialed_json)}};
                                },
                            },
                            reading));
}

Result<Reading> read_reading(std::string_view json) {
  return read_with<Reading>(json, [](const Json& read) -> Reading {
    if (!read.contains("dialed")) return read_facts(read);
    std::vector<Dialed> all;
    for (const auto& each : read.at("dialed")) all.push_back(read_dialed(each));
    return all;
  });
}

}  // namespace cpprun::doctor
