// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The part of JSON Schema that docs/openapi.json uses, in both directions: what a value has must be
// in its schema, and what a schema allows must have occurred in some value.

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace cpprun::testing {

class Schemas {
 public:
  explicit Schemas(const nlohmann::json& document) : root_(document) {}

  // Records the errors of that value against the schema of that name, and what the value has.
  void look(const std::string& name, const nlohmann::json& value);
  // "Job.since: number is not allowed\n", each once.
  std::string faults() const;
  // What the checked schemas allow and no value had: "Job.since: null\n".
  std::string unseen() const;

 private:
  using Json = nlohmann::json;
  const Json& named(const std::string& name) const;
  void look(const Json& schema, const Json& value, const std::string& place);
  void look_at_object(const Json& schema, const Json& value, const std::string& place);
  void list(const Json& schema, const std::string& place, std::set<std::string>& all) const;

  const Json& root_;
  std::set<std::string> names_;
  std::set<std::string> seen_;
  std::set<std::string> faults_;
};

}  // namespace cpprun::testing
