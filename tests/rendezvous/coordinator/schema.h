// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// As much of JSON Schema as docs/openapi.json uses, and in both directions: what a value has must
// be in its schema, and what a schema allows must have been seen somewhere.

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace cpprun::testing {

class Schemas {
 public:
  explicit Schemas(const nlohmann::json& document) : root_(document) {}

  // Notes what is wrong with that value of the schema of that name, and what it has shown.
  void look(const std::string& name, const nlohmann::json& value);
  // "Job.since: number is not allowed\n", each once.
  std::string faults() const;
  // What the schemas that were looked at allow and nothing had: "Job.since: null\n".
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
