// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/doctor/examination.h"

#include <nlohmann/json.hpp>

#include "proto/fields_json.h"
#include "proto/parse_json.h"

namespace cpprun::doctor {

namespace {

using Json = nlohmann::ordered_json;

struct ExchangeFormat {
  void fields(auto& f, Of<AskFacts> auto& ask) const { f("port", ask.port); }
  void fields(auto& f, Of<AskDial> auto& ask) const { f("dial", ask.others); }
  void fields(auto& f, Of<Target> auto& target) const {
    f("number", target.number), f("name", target.name), f("address", target.address);
    f("port", target.port), f("greeting", target.greeting);
  }
  void fields(auto& f, Of<Disk> auto& disk) const {
    f("path", disk.path), f("size", disk.size), f("free", disk.free), f("refusal", disk.refusal);
  }
  void fields(auto& f, Of<HostFacts> auto& facts) const {
    f("host", facts.host), f("version", facts.version), f("cpprun", facts.cpprun);
    f("network", facts.network), f("gpus_on_bus", facts.gpus.on_bus);
    f("gpus_in_driver", facts.gpus.in_driver), f("gpus_usable", facts.gpus.usable);
    f("missing_gpus", facts.missing_gpus), f("infiniband", facts.has_infiniband);
    f("open_files", facts.limits.open_files), f("locked_bytes", facts.limits.locked_bytes);
    f("processes", facts.limits.processes), f("shared_memory", facts.shared_memory);
    f("temporary", facts.temporary), f("asked", facts.asked), f("answered", facts.answered);
    f("port", facts.port), f("why_no_port", facts.why_no_port), f("greeting", facts.greeting);
    f.where_known("stacks", facts.stacks);
  }
  void fields(auto& f, Of<StackSources> auto& stacks) const {
    f("python", stacks.python), f("torch", stacks.torch), f("py_spy", stacks.has_py_spy);
    f("libdw_refusal", stacks.libdw_refusal), f("ptrace_refusal", stacks.ptrace_refusal);
    f("ptrace_scope", stacks.ptrace_scope);
  }
  void fields(auto& f, Of<Dialed> auto& dialed) const {
    f("number", dialed.number), f("addresses", dialed.addresses);
    f("why_unresolved", dialed.why_unresolved), f("reached", dialed.reached);
    f("where", dialed.where), f("why", dialed.why);
  }

  static Json write(Reached reached) { return static_cast<int>(reached); }
  static void read(const char*, const Json& json, Reached& reached) {
    reached = static_cast<Reached>(json.get<int>());
  }
  // Microseconds since 1970.
  static Json write(WallTime time) { return time.time_since_epoch().count(); }
  static void read(const char*, const Json& json, WallTime& time) {
    time = WallTime{WallTime::duration{json.get<std::int64_t>()}};
  }
};

template <class Value>
Value from(const Json& json) {
  return value_of_json<Value>(ExchangeFormat{}, json);
}

template <class Value>
std::string text_of(const Value& value) {
  return text_of_json(json_of<Json>(ExchangeFormat{}, value));
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
  return std::visit([](const auto& ask) { return text_of(ask); }, question);
}

Result<Question> read_question(std::string_view json) {
  return read_with<Question>(json, [](const Json& read) -> Question {
    if (read.contains("dial")) return from<AskDial>(read);
    return from<AskFacts>(read);
  });
}

std::string to_json(const Reading& reading) {
  const auto* const facts = std::get_if<HostFacts>(&reading);
  if (facts != nullptr) return text_of(*facts);
  const auto& dialed = std::get<std::vector<Dialed>>(reading);
  return text_of_json(Json{{"dialed", json_of<Json>(ExchangeFormat{}, dialed)}});
}

Result<Reading> read_reading(std::string_view json) {
  return read_with<Reading>(json, [](const Json& read) -> Reading {
    if (read.contains("dialed")) return from<std::vector<Dialed>>(read.at("dialed"));
    return from<HostFacts>(read);
  });
}

}  // namespace cpprun::doctor
