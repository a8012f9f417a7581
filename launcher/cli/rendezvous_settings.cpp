// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/cli/rendezvous_settings.h"

#include "launcher/cli/rendezvous_conf.h"
#include "proto/bounds.h"
#include "proto/text.h"

namespace cpprun {

namespace {

constexpr int static_port = 29500;
constexpr int endpoint_port = 29400;  // c10d's, where the endpoint names none
constexpr int port_max = 65535;
// Static rendezvous has always been this patient under torchrun, and queues in clusters are long.
constexpr auto static_join_timeout = std::chrono::seconds(900);

// Fills in field by field. The order is that of dependence: sizes, then how nodes meet.
class Checker {
 public:
  Checker(SettingReader& reader, const std::string& random_id, Config& config)
      : reader_(reader), random_id_(random_id), config_(config) {}

  void check() {
    read_nodes();
    config_.node_rank = reader_.number("node-rank", 0, any_count_max);
    if (config_.node_rank && *config_.node_rank >= config_.nodes_max && nodes_known_) {
      reader_.complain("{}={} is beyond the last of {} nodes, which has rank {}",
                       reader_.source("node-rank"), *config_.node_rank, config_.nodes_max,
                       config_.nodes_max - 1);
    }
    read_patience();
    read_meeting();
  }

 private:
  void read_nodes() {
    const auto* nodes = reader_.find("nnodes");
    if (nodes == nullptr) return;
    const auto parts = split(nodes->value, ':');
    const auto lowest = whole_number(parts.front());
    const auto highest = whole_number(parts.back());
    if (parts.size() > 2 || !lowest || !highest || *lowest < 1 || *highest < *lowest) {
      nodes_known_ = false;
      return reader_.complain("{}={} is neither a number of nodes, as 2, nor a range, as 2:4",
                              nodes->source, nodes->value);
    }
    if (*highest > bounds::nodes_max) {
      nodes_known_ = false;
      return reader_.complain("{}={} is more than a job can have: {} nodes", nodes->source,
                              nodes->value, bounds::nodes_max);
    }
    config_.nodes_min = *lowest;
    config_.nodes_max = *highest;
  }

  void read_patience() {
    const auto* conf = reader_.find("rdzv-conf");
    const auto patience = conf == nullptr
                              ? Timeouts{}
                              : read_rendezvous_conf(conf->value, conf->source, reader_.mistakes());
    const auto* backend = reader_.find("rdzv-backend");
    if (backend == nullptr || backend->value == "static") {
      config_.join_timeout = static_join_timeout;
    }
    config_.join_timeout = patience.join_timeout.value_or(config_.join_timeout);
    config_.keep_alive_interval =
        patience.keep_alive_interval.value_or(config_.keep_alive_interval);
    config_.keep_alive_attempts_max =
        patience.keep_alive_attempts.value_or(config_.keep_alive_attempts_max);
    config_.last_call = patience.last_call_timeout.value_or(config_.last_call);
    config_.is_host = patience.is_host;
  }

  // torchrun's rules for which rendezvous a command line gets, but a job id that was given is kept.
  void read_meeting() {
    const auto* backend = reader_.find("rdzv-backend");
    const auto name = backend == nullptr ? std::string("static") : backend->value;
    const bool one_node = config_.nodes_max == 1;
    const auto* endpoint = reader_.find("rdzv-endpoint");
    if (endpoint != nullptr && endpoint->value.empty()) endpoint = nullptr;  // torchrun's default
    if (name == "etcd" || name == "etcd-v2") {
      reader_.complain("{}={} is not there; cpprun hosts its own store, leave the flag out",
                       backend->source, name);
    } else if (name != "static" && name != "c10d") {
      reader_.complain("{}={} is no rendezvous; static and c10d are", backend->source, name);
    }
    if (reader_.has("standalone")) {
      if (!one_node) {
        reader_.complain("{} is one node by itself, and {}={} asks for more; leave one of them out",
                         reader_.source("standalone"), reader_.source("nnodes"), config_.nodes_max);
      }
      ignore({"rdzv-endpoint", "master-addr", "master-port"}, "with --standalone");
      stand_alone();
    } else if (name == "c10d" && !one_node && endpoint == nullptr) {
      reader_.complain(
          "{}=c10d with {} nodes needs --rdzv-endpoint=HOST[:PORT], the same on every node",
          backend->source, config_.nodes_max);
    } else if (one_node && endpoint == nullptr && (name == "c10d" || !reader_.has("master-port"))) {
      stand_alone();
    } else {
      meet_at(endpoint, name == "c10d");
    }
    if (config_.is_host == false && config_.rendezvous == RendezvousMode::standalone) {
      reader_.complain(
          "{}: is_host=false, but nobody else hosts the rendezvous of one node by "
          "itself; leave it out, or name the host with --rdzv-endpoint",
          reader_.source("rdzv-conf"));
    }
    if (auto id = reader_.name("rdzv-id", bounds::job_id_bytes_max)) config_.job = std::move(*id);
    if (const auto* address = reader_.find("local-addr")) config_.local_addr = host(*address);
  }

  void stand_alone() {
    config_.rendezvous = RendezvousMode::standalone;
    config_.endpoint = {"127.0.0.1", 0};
    config_.job = random_id_;
  }

  void meet_at(const Setting* endpoint, bool by_endpoint) {
    config_.rendezvous = by_endpoint ? RendezvousMode::endpoint : RendezvousMode::fixed_master;
    config_.endpoint = {"127.0.0.1", static_port};
    if (const auto* address = reader_.find("master-addr")) config_.endpoint.host = host(*address);
    if (const auto port = reader_.number("master-port", 0, port_max)) config_.endpoint.port = *port;
    if (endpoint != nullptr) {
      for (const char* unused : {"master-addr", "master-port"}) {
        if (reader_.has(unused)) {
          reader_.note("{} is ignored, {} says where", reader_.source(unused), endpoint->source);
        }
      }
      const auto parsed =
          parse_endpoint(endpoint->value, by_endpoint ? endpoint_port : static_port);
      if (!parsed) return reader_.complain("{}: {}", endpoint->source, parsed.error().reason);
      config_.endpoint = *parsed;
      config_.place_by_endpoint = true;
    }
    if (config_.endpoint.port != 0) return;
    if (config_.nodes_max == 1) return stand_alone();
    reader_.complain(
        "{}: port 0 means any free one, which the other nodes could not know; give a number",
        endpoint != nullptr ? endpoint->source : reader_.source("master-port"));
  }

  void ignore(std::initializer_list<std::string_view> flags, std::string_view why) {
    for (const auto unused : flags) {
      if (reader_.has(unused)) reader_.note("{} is ignored {}", reader_.source(unused), why);
    }
  }

  std::string host(const Setting& setting) {
    const auto parsed = parse_host(setting.value);
    if (!parsed) reader_.complain("{}: {}", setting.source, parsed.error().reason);
    return parsed.value_or("");
  }

  SettingReader& reader_;
  const std::string& random_id_;
  Config& config_;
  bool nodes_known_ = true;
};

}  // namespace

void read_rendezvous_settings(SettingReader& reader, const std::string& random_id, Config& config) {
  Checker(reader, random_id, config).check();
}

}  // namespace cpprun
