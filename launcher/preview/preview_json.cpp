// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <nlohmann/json.hpp>

#include "proto/fields_json.h"
#include "proto/parse_json.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int indent = 2;

struct PreviewFormat {
  void fields(auto& f, Of<PreviewWorker> auto& worker) const {
    f("local_rank", worker.local_rank), f("rank", worker.rank), f("gpu", OrNull{worker.gpu});
    f("cpus", OrNull{worker.cpus}), f("command", worker.command);
    f("variables", worker.variables);
  }
  void fields(auto& f, Of<PreviewNode> auto& node) const {
    f("host", node.host), f("name", OrNull{node.name}), f("group_rank", node.group_rank);
    f("address", OrNull{node.address}), f("interface", OrNull{node.interface});
    f("master", node.hosting), f("folder", node.directory), f("python", OrNull{node.interpreter});
    f("gpus", node.gpus), f("gpus_of_the_machine", node.gpus_there), f("role", node.role);
    f("notes", node.notes), f("inherited", node.inherited), f("workers", node.workers);
  }
  void fields(auto& f, Of<Preview> auto& preview) const {
    f("cpprun", preview.version), f("job", OrNull{preview.job}), f("meeting", preview.meeting);
    f("master_address", OrNull{preview.master_host}), f("master_port", preview.master_port);
    f("places", preview.places), f("etcd", preview.etcd), f("nodes_min", preview.nodes_min);
    f("nodes_max", preview.nodes_max), f("store", preview.store);
    f("secret", preview.has_secret), f("log_folder", OrNull{preview.log_directory});
    f("nodes", preview.nodes);
  }
  void fields(auto& f, const Unknown& each) const { f("what", each.what), f("why", each.why); }

  // Variables by name; null if not known before the start.
  template <class Variables>
    requires requires { typename Variables::mapped_type; }
  OrderedJson write(const Variables& variables) const {
    OrderedJson json = OrderedJson::object();
    for (const auto& [name, value] : variables) json[name] = json_of<OrderedJson>(*this, value);
    return json;
  }
  template <class Variables>
    requires requires { typename Variables::mapped_type; }
  void read(const char* key, const OrderedJson& json, Variables& variables) const {
    for (const auto& [name, value] : json.items()) read_json(*this, key, value, variables[name]);
  }
};

}  // namespace

std::string to_json(const Preview& preview) {
  auto json = json_of<OrderedJson>(PreviewFormat{}, preview);
  json["unknown"] = json_of<OrderedJson>(PreviewFormat{}, unknowns_of(preview));
  return text_of_json(json, indent) + "\n";
}

Result<Preview> read_preview(std::string_view json) {
  try {
    const auto parsed = parse_json<OrderedJson>(json);
    if (parsed.is_discarded())
      return failure("not the output of cpprun --dry-run --json: not JSON");
    return value_of_json<Preview>(PreviewFormat{}, parsed);
  } catch (const OrderedJson::exception& wrong) {
    return failure(std::string("not the output of cpprun --dry-run --json: ") + wrong.what());
  }
}

}  // namespace cpprun
