// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <nlohmann/json.hpp>

#include "proto/parse_json.h"

namespace cpprun {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int indent = 2;

template <class T>
OrderedJson or_null(const std::optional<T>& value) {
  return value ? OrderedJson(*value) : OrderedJson(nullptr);
}

OrderedJson or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(text);
}

template <class T>
std::optional<T> optional_at(const OrderedJson& json, const char* name) {
  const OrderedJson& value = json.at(name);
  return value.is_null() ? std::nullopt : std::optional<T>(value.get<T>());
}

std::string text_at(const OrderedJson& json, const char* name) {
  return optional_at<std::string>(json, name).value_or("");
}

OrderedJson worker_json(const PreviewWorker& worker) {
  OrderedJson json;
  json["local_rank"] = worker.local_rank;
  json["rank"] = or_null(worker.rank);
  json["gpu"] = or_null(worker.gpu);
  json["cpus"] = or_null(worker.cpus);
  json["command"] = worker.command;
  json["variables"] = OrderedJson::object();
  for (const auto& [name, value] : worker.variables) json["variables"][name] = or_null(value);
  return json;
}

PreviewWorker read_worker(const OrderedJson& json) {
  PreviewWorker worker{.local_rank = json.at("local_rank").get<int>(),
                       .rank = optional_at<int>(json, "rank"),
                       .command = json.at("command").get<std::vector<std::string>>(),
                       .variables = {},
                       .gpu = text_at(json, "gpu"),
                       .cpus = text_at(json, "cpus")};
  for (const auto& [name, value] : json.at("variables").items()) {
    worker.variables[name] =
        value.is_null() ? std::nullopt : std::optional(value.get<std::string>());
  }
  return worker;
}

OrderedJson node_json(const PreviewNode& node) {
  OrderedJson json;
  json["host"] = node.host;
  json["name"] = or_null(node.name);
  json["group_rank"] = or_null(node.group_rank);
  json["address"] = or_null(node.address);
  json["interface"] = or_null(node.interface);
  json["master"] = node.hosting;
  json["folder"] = node.directory;
  json["python"] = or_null(node.interpreter);
  json["gpus"] = node.gpus;
  json["gpus_of_the_machine"] = node.gpus_there;
  json["role"] = node.role;
  json["notes"] = node.notes;
  json["inherited"] = OrderedJson::object();
  for (const auto& [name, value] : node.inherited) json["inherited"][name] = value;
  json["workers"] = OrderedJson::array();
  for (const auto& worker : node.workers) json["workers"].push_back(worker_json(worker));
  return json;
}

PreviewNode read_node(const OrderedJson& json) {
  PreviewNode node{.host = json.at("host").get<std::string>(),
                   .name = text_at(json, "name"),
                   .group_rank = optional_at<int>(json, "group_rank"),
                   .address = text_at(json, "address"),
                   .interface = text_at(json, "interface"),
                   .hosting = json.at("master").get<std::string>(),
                   .directory = json.at("folder").get<std::string>(),
                   .interpreter = text_at(json, "python"),
                   .gpus = json.at("gpus").get<int>(),
                   .gpus_there = json.at("gpus_of_the_machine").get<int>(),
                   .role = json.at("role").get<std::string>()};
  node.notes = json.at("notes").get<std::vector<std::string>>();
  for (const auto& [name, value] : json.at("inherited").items()) {
    node.inherited[name] = value.get<std::string>();
  }
  for (const auto& worker : json.at("workers")) node.workers.push_back(read_worker(worker));
  return node;
}

Preview read_preview(const OrderedJson& json) {
  Preview preview{.version = json.at("cpprun").get<std::string>(),
                  .job = text_at(json, "job"),
                  .meeting = json.at("meeting").get<std::string>(),
                  .master_host = text_at(json, "master_address"),
                  .master_port = optional_at<int>(json, "master_port"),
                  .places = json.at("places").get<std::vector<std::string>>(),
                  .etcd = json.at("etcd").get<std::vector<std::string>>(),
                  .nodes_min = json.at("nodes_min").get<int>(),
                  .nodes_max = json.at("nodes_max").get<int>(),
                  .store = json.at("store").get<std::string>(),
                  .has_secret = json.at("secret").get<bool>(),
                  .log_directory = text_at(json, "log_folder")};
  for (const auto& node : json.at("nodes")) preview.nodes.push_back(read_node(node));
  return preview;
}

}  // namespace

std::string to_json(const Preview& preview) {
  OrderedJson json;
  json["cpprun"] = preview.version;
  json["job"] = or_null(preview.job);
  json["meeting"] = preview.meeting;
  json["master_address"] = or_null(preview.master_host);
  json["master_port"] = or_null(preview.master_port);
  json["places"] = preview.places;
  json["etcd"] = preview.etcd;
  json["nodes_min"] = preview.nodes_min;
  json["nodes_max"] = preview.nodes_max;
  json["store"] = preview.store;
  json["secret"] = preview.has_secret;
  json["log_folder"] = or_null(preview.log_directory);
  json["nodes"] = OrderedJson::array();
  for (const auto& node : preview.nodes) json["nodes"].push_back(node_json(node));
  json["unknown"] = OrderedJson::array();
  for (const auto& each : unknowns_of(preview)) {
    json["unknown"].push_back({{"what", each.what}, {"why", each.why}});
  }
  // Arguments and variables may be invalid UTF-8, which is replaced.
  return json.dump(indent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

Result<Preview> read_preview(std::string_view json) {
  try {
    const auto parsed = parse_json<OrderedJson>(json);
    if (parsed.is_discarded())
      return failure("not the output of cpprun --dry-run --json: not JSON");
    return read_preview(parsed);
  } catch (const OrderedJson::exception& wrong) {
    return failure(std::string("not the output of cpprun --dry-run --json: ") + wrong.what());
  }
}

}  // namespace cpprun
