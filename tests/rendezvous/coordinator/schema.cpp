// SPDX-License-Identifier: BSD-3-Clause
#include "tests/rendezvous/coordinator/schema.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace cpprun::testing {

namespace {

using Json = nlohmann::json;

constexpr std::string_view schemas_path = "#/components/schemas/";

std::string type_of(const Json& value) {
  if (value.is_number_integer()) return "integer";
  return value.type_name();  // "number", "string", "object", …
}

// "type" is one name or a list of names.
std::vector<std::string> types_of(const Json& schema) {
  const Json& type = schema.at("type");
  return type.is_array() ? type.get<std::vector<std::string>>()
                         : std::vector<std::string>{type.get<std::string>()};
}

std::string lines_of(const std::set<std::string>& all) {
  std::string lines;
  for (const auto& each : all) lines += each + "\n";
  return lines;
}

std::string name_in(const Json& schema) {
  return schema.at("$ref").get<std::string>().substr(schemas_path.size());
}

}  // namespace

const Json& Schemas::named(const std::string& name) const {
  return root_.at("components").at("schemas").at(name);
}

void Schemas::look(const std::string& name, const Json& value) {
  names_.insert(name);
  look(named(name), value, name);
}

// The members of a named object are listed under that name, wherever it occurs.
void Schemas::look(const Json& schema, const Json& value, const std::string& place) {
  if (schema.contains("$ref")) {
    seen_.insert(place + ": " + name_in(schema));
    return look(name_in(schema), value);
  }
  if (schema.contains("oneOf")) {
    const auto fits = std::ranges::find_if(schema["oneOf"], [&](const Json& each) {
      const bool is_null = each.contains("type") && each["type"] == "null";
      return is_null == value.is_null();
    });
    if (fits != schema["oneOf"].end()) return look(*fits, value, place);
    faults_.insert(place + ": " + type_of(value) + " is not allowed");
    return;
  }
  const auto types = types_of(schema);
  std::string type = type_of(value);
  // An integer is a number as well.
  if (type == "integer" && std::ranges::find(types, "integer") == types.end()) type = "number";
  if (std::ranges::find(types, type) == types.end()) {
    faults_.insert(place + ": " + type + " is not allowed");
    return;
  }
  seen_.insert(place + ": " + type);
  if (schema.contains("enum") && std::ranges::find(schema["enum"], value) == schema["enum"].end()) {
    faults_.insert(place + ": " + value.dump() + " is none of its words");
  }
  if (type == "object") look_at_object(schema, value, place);
  if (type == "array") {
    for (const Json& each : value) look(schema.at("items"), each, place + "[]");
  }
}

void Schemas::look_at_object(const Json& schema, const Json& value, const std::string& place) {
  const Json properties = schema.value("properties", Json::object());
  // the schema of all other members, or whether they are allowed
  const Json& others = schema.at("additionalProperties");
  for (const auto& [key, each] : value.items()) {
    if (properties.contains(key)) {
      look(properties[key], each, place + "." + key);
    } else if (others.is_object()) {
      look(others, each, place + ".*");
    } else if (others == false) {
      faults_.insert(place + "." + key + " is in no schema");
    }
  }
  for (const Json& key : schema.value("required", Json::array())) {
    if (!value.contains(key.get<std::string>())) {
      faults_.insert(place + "." + key.get<std::string>() + " is missing");
    }
  }
}

void Schemas::list(const Json& schema, const std::string& place, std::set<std::string>& all) const {
  if (schema.contains("$ref")) {
    all.insert(place + ": " + name_in(schema));
    return;
  }
  for (const Json& each : schema.value("oneOf", Json::array())) list(each, place, all);
  if (!schema.contains("type")) return;
  for (const auto& type : types_of(schema)) all.insert(place + ": " + type);
  if (schema.contains("items")) list(schema["items"], place + "[]", all);
  const Json others = schema.value("additionalProperties", Json());
  if (others.is_object()) list(others, place + ".*", all);
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [key, each] : properties.items()) {
    list(each, place + "." + key, all);
  }
}

std::string Schemas::faults() const {
  return lines_of(faults_);
}

std::string Schemas::unseen() const {
  std::set<std::string> all;
  for (const auto& name : names_) list(named(name), name, all);
  std::set<std::string> left;
  std::ranges::set_difference(all, seen_, std::inserter(left, left.end()));
  return lines_of(left);
}

}  // namespace cpprun::testing
