// SPDX-License-Identifier: BSD-3-Clause
// Open MPI: mpirun(1) of 4.1, ENVIRONMENT, and what its ORTE and PRRTE were seen to set. Hydra:
// MPICH's and Intel MPI's mpiexec.
#include <fmt/format.h>

#include "launcher/scheduler/said.h"
#include "launcher/scheduler/scheduler_facts.h"

namespace cpprun {

namespace {

// "1294925824.0;tcp://10.0.0.1,192.168.0.1:45843;tcp6://[fd00::2]:41537" → 10.0.0.1. It is where
// mpirun itself runs.
std::optional<std::string> host_of_uri(std::string_view uri) {
  constexpr std::string_view scheme = ";tcp://";
  const auto at = uri.find(scheme);
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = uri.substr(at + scheme.size());
  const auto host = rest.substr(0, rest.find_first_of(",:;"));
  if (host.empty()) return std::nullopt;
  return std::string(host);
}

// "prterun-node1-4711@1" → node1, as the Open MPI of 2023 and later names its jobs.
std::optional<std::string> host_of_namespace(std::string_view name) {
  constexpr std::string_view start = "prterun-";
  if (!name.starts_with(start)) return std::nullopt;
  name.remove_prefix(start.size());
  const auto host = name.substr(0, name.rfind('-'));
  if (host.empty()) return std::nullopt;
  return std::string(host);
}

void find_open_mpis_host(const Environment& environment, SchedulerFacts& facts) {
  // mpirun may have been typed on a host that is none of the job's first, or none of its own.
  facts.master_is_first = false;
  const auto uri = said_text(environment, {"OMPI_MCA_orte_hnp_uri"});
  const auto name = said_text(environment, {"PMIX_NAMESPACE"});
  if (const auto host = uri ? host_of_uri(uri->value) : std::nullopt) {
    facts.master = {*host, uri->source};
  } else if (const auto named = name ? host_of_namespace(name->value) : std::nullopt) {
    facts.master = {*named, name->source};
  }
}

// mpirun runs a daemon on each host of the job, and takes the place of the one where it was typed
// itself, as number 0. There may be no task: on a login node, above all. The other hosts cannot
// know that, and look for the master there.
void doubt_login_node(const Environment& environment, SchedulerFacts& facts) {
  const auto daemons = said_number(environment, 1, {"OMPI_MCA_ess_base_num_procs"});
  const auto hosts = said_number(environment, 1, {"OMPI_MCA_orte_num_nodes"});
  const auto uri = said_text(environment, {"OMPI_MCA_orte_local_daemon_uri"});
  if (facts.node_rank->value != 0 || !facts.master || !daemons || !hosts || !uri) return;
  const auto job = uri->value.substr(0, uri->value.find(';'));
  if (daemons->value <= hosts->value || job.ends_with(".0")) return;
  const auto own = said_text(environment, {"PMIX_HOSTNAME"});
  facts.doubt = fmt::format(
      "warning: the nodes meet at {}, where mpirun was typed ({}); it uses {} of {} hosts, so "
      "there "
      "may be no cpprun\n  hint: if {} is a login node, give --master-addr={}, a host of the job",
      facts.master->value, facts.master->source, hosts->value, daemons->value, facts.master->value,
      own ? own->value : "HOST");
}

}  // namespace

std::optional<SchedulerFacts> open_mpi_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "Open MPI"};
  facts.nodes = said_number(environment, 1, {"OMPI_COMM_WORLD_SIZE"});
  facts.node_rank = said_number(environment, 0, {"OMPI_COMM_WORLD_RANK"});
  if (!facts.nodes || !facts.node_rank) return std::nullopt;
  // Ranks of tasks are those of nodes, where each node has one.
  const auto here = said_number(environment, 1, {"OMPI_COMM_WORLD_LOCAL_SIZE"});
  const auto hosts = said_number(environment, 1, {"OMPI_MCA_orte_num_nodes"});
  if (hosts && facts.nodes->value > hosts->value) {
    const auto all =
        fmt::format("{} tasks on {} hosts ({})", facts.nodes->value, hosts->value, hosts->source);
    facts.mistakes.push_back(crowded_text("mpirun", all, "mpirun -N 1 cpprun …"));
  } else if (here && here->value > 1) {
    facts.mistakes.push_back(crowded_text("mpirun", tasks_here(*here), "mpirun -N 1 cpprun …"));
  }
  find_open_mpis_host(environment, facts);
  doubt_login_node(environment, facts);
  facts.job = said_text(environment, {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"});
  if (facts.job) {
    facts.port = {port_of(facts.job->value), facts.job->source};
    facts.job->value = "mpi-" + facts.job->value;
  }
  return facts;
}

std::optional<SchedulerFacts> hydra_facts(const Environment& environment,
                                          const TextFile& read_file) {
  SchedulerFacts facts{.name = "mpiexec"};
  const auto here = said_number(environment, 1, {"MPI_LOCALNRANKS"});
  facts.nodes = said_number(environment, 1, {"PMI_SIZE"});
  facts.node_rank = said_number(environment, 0, {"PMI_RANK"});
  if (!here || !facts.nodes || !facts.node_rank) return std::nullopt;
  if (here->value > 1) {
    facts.mistakes.push_back(crowded_text("mpiexec", tasks_here(*here), "mpiexec -ppn 1 cpprun …"));
  }
  // It tells its tasks nothing about their hosts, but PBS does, where it runs in a job of that.
  facts.master_is_first = false;
  const auto hosts = said_text(environment, {"PBS_NODEFILE"});
  if (const auto text = hosts ? read_file(hosts->value) : failure("")) {
    const auto names = hosts_of_lines(*text);
    if (!names.empty()) facts.master = {names.front(), hosts->source};
  }
  if (const auto job = said_text(environment, {"PBS_JOBID"})) {
    facts.job = {"pbs-" + job->value, job->source};
    facts.port = {port_of(job->value), job->source};
  }
  return facts;
}

}  // namespace cpprun
