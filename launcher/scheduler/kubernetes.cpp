// SPDX-License-Identifier: BSD-3-Clause
// Kubernetes, Jobs, completion mode Indexed: JOB_COMPLETION_INDEX, and host names that end with it;
// a pod that has a subdomain finds its full name in its own /etc/hosts. Kubeflow's PyTorchJob gives
// PET_* variables, which are flags; before it did, RANK and WORLD_SIZE of nodes.
#include <fmt/format.h>

#include "launcher/scheduler/said.h"
#include "launcher/scheduler/scheduler_facts.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

namespace {

// "10.244.1.7  train-2.train.default.svc.cluster.local  train-2": the full name of `host`.
std::optional<std::string> full_name(std::string_view hosts_file, std::string_view host) {
  for (const auto line : split(hosts_file, '\n')) {
    std::string words(line.substr(0, line.find('#')));
    for (char& byte : words) {
      if (byte == '\t') byte = ' ';
    }
    for (const auto name : split(words, ' ')) {
      const bool longer = name.size() > host.size() && name[host.size()] == '.';
      if (longer && name.starts_with(host)) return std::string(name);
    }
  }
  return std::nullopt;
}

// "train-2.train.default…" and 2 → "train-0.train.default…".
std::optional<std::string> first_pod(std::string_view name, int index) {
  const auto dot = name.find('.');
  const auto host = name.substr(0, dot);
  const std::string ending = fmt::format("-{}", index);
  if (!host.ends_with(ending)) return std::nullopt;
  return fmt::format("{}-0{}", host.substr(0, host.size() - ending.size()), name.substr(dot));
}

SchedulerFacts indexed_job(const Environment& environment, const Said<int>& index,
                           const TextFile& read_file) {
  SchedulerFacts facts{.name = "Kubernetes", .node_rank = index};
  const auto host = said_text(environment, {"HOSTNAME"});
  const auto hosts_file = read_file("/etc/hosts");
  const auto name =
      host && hosts_file ? full_name(*hosts_file, host->value) : std::optional<std::string>{};
  const auto first = name ? first_pod(*name, index.value) : std::nullopt;
  if (first) {
    facts.master = {*first, "/etc/hosts"};
    facts.job = {first->substr(0, first->find('.')), host->source};
  } else {
    facts.no_master =
        "the pods of this job have no names that others could look up: give the pod template a "
        "`subdomain`, the name of a headless Service of theirs";
  }
  return facts;
}

SchedulerFacts kubeflow(const Environment& environment, const Said<int>& rank) {
  SchedulerFacts facts{.name = "Kubeflow", .node_rank = rank};
  facts.nodes = said_number(environment, 1, {contract::world_size});
  facts.master = said_text(environment, {contract::master_addr});
  facts.port = said_number(environment, 1, {contract::master_port});
  return facts;
}

}  // namespace

std::optional<SchedulerFacts> kubernetes_facts(const Environment& environment,
                                               const TextFile& read_file) {
  if (find_variable(environment, "KUBERNETES_SERVICE_HOST") == nullptr) return std::nullopt;
  const auto rank = said_number(environment, 0, {contract::rank});
  if (rank && find_variable(environment, contract::world_size) != nullptr) {
    return kubeflow(environment, *rank);
  }
  const auto index = said_number(environment, 0, {"JOB_COMPLETION_INDEX"});
  if (!index) return std::nullopt;
  return indexed_job(environment, *index, read_file);
}

}  // namespace cpprun
