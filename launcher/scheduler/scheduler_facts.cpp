// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/scheduler/scheduler_facts.h"

#include <fmt/format.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>

#include "proto/host_list.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

std::optional<SchedulerFacts> scheduler_facts(const Environment& environment,
                                              const TextFile& read_file) {
  if (find_variable(environment, contract::local_rank) != nullptr) return std::nullopt;
  // The innermost launcher comes first. mpirun runs inside a Slurm or PBS job: its variables are
  // about the tasks, while the scheduler's are about mpirun's daemons.
  if (auto facts = open_mpi_facts(environment)) return facts;
  if (auto facts = slurm_facts(environment)) return facts;
  if (auto facts = lsf_facts(environment)) return facts;
  if (auto facts = pbs_facts(environment, read_file)) return facts;
  if (auto facts = hydra_facts(environment, read_file)) return facts;
  return kubernetes_facts(environment, read_file);
}

std::optional<Said<int>> said_number(const Environment& environment, int lowest,
                                     std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const auto* text = find_variable(environment, name);
    const auto number = text == nullptr ? std::nullopt : exact_number<int>(*text);
    if (number && *number >= lowest) return Said<int>{*number, std::string(name)};
  }
  return std::nullopt;
}

std::optional<Said<std::string>> said_text(const Environment& environment,
                                           std::initializer_list<std::string_view> names) {
  for (const auto name : names) {
    const auto* text = find_variable(environment, name);
    if (text != nullptr && !text->empty()) return Said<std::string>{*text, std::string(name)};
  }
  return std::nullopt;
}

int port_of(std::string_view text) {
  constexpr std::uint32_t first = 20000;
  constexpr std::uint32_t span = 10000;
  // FNV-1a, 32 bits (Fowler, Noll, Vo): every node must compute the same number.
  std::uint32_t hash = 2166136261U;
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  }
  return static_cast<int>(first + hash % span);
}

std::string tasks_here(const Said<int>& tasks) {
  return fmt::format("{} tasks on this node ({})", tasks.value, tasks.source);
}

std::string crowded_text(std::string_view starter, std::string_view tasks, std::string_view hint) {
  return fmt::format(
      "{} started {}, but cpprun must run once per node and starts the workers itself\n  hint: use "
      "`{}`, or run each task as its own job with --standalone, or ignore {} with --no-scheduler",
      starter, tasks, hint, starter);
}

std::vector<std::string> hosts_of_lines(std::string_view text) {
  std::vector<std::string> hosts;
  for (const auto line : split(text, '\n')) {
    const std::string host(trimmed(line));
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  return hosts;
}

// Variables: srun(1), OUTPUT ENVIRONMENT VARIABLES, Slurm 22.05.

namespace {

// Whether this process is in a job step, which srun starts. Batch scripts and the shell of an
// allocation are not in a step. They run on one node, even if the job has more.
bool is_step(const Environment& environment) {
  return said_number(environment, 1, {"SLURM_STEP_NUM_NODES"}) &&
         said_number(environment, 0, {"SLURM_NODEID"}) &&
         said_number(environment, 0, {"SLURM_PROCID"});
}

// "slurm-77", "slurm-77.0", or "slurm-70_3.0" for a task of a job array.
std::optional<Said<std::string>> job_of(const Environment& environment) {
  const auto job = said_text(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return std::nullopt;
  const auto array = said_text(environment, {"SLURM_ARRAY_JOB_ID"});
  const auto task = said_text(environment, {"SLURM_ARRAY_TASK_ID"});
  const auto step = said_text(environment, {"SLURM_STEP_ID"});
  return Said<std::string>{
      fmt::format("slurm-{}{}{}", array && task ? array->value + "_" + task->value : job->value,
                  step ? "." : "", step ? step->value : ""),
      job->source};
}

// Rejects more than one task on any node. All tasks must be rejected then: if only some were, the
// others would wait for them.
void check_tasks(const Environment& environment, SchedulerFacts& facts) {
  const auto tasks = said_number(environment, 1, {"SLURM_STEP_NUM_TASKS"});
  if (!tasks || tasks->value <= facts.nodes->value) return;
  const auto placed = said_text(environment, {"SLURM_STEP_TASKS_PER_NODE"});
  const int here = placed ? tasks_of_node(placed->value, facts.node_rank->value) : 0;
  facts.diagnostics.push_back(crowded_text(
      "Slurm",
      fmt::format("{} tasks on {} nodes ({}={})", tasks->value, facts.nodes->value,
                  placed ? placed->source : tasks->source,
                  placed ? placed->value : std::to_string(tasks->value)),
      fmt::format("srun --ntasks-per-node=1 cpprun --nproc-per-node={}", here > 1 ? here : 1)));
}

void read_step(const Environment& environment, SchedulerFacts& facts) {
  facts.nodes = said_number(environment, 1, {"SLURM_STEP_NUM_NODES"});
  facts.node_rank = said_number(environment, 0, {"SLURM_NODEID"});
  const auto hosts = said_text(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (hosts) {
    const auto expanded = expand_hosts(hosts->value);
    if (expanded) {
      facts.master = {expanded->front(), hosts->source};
    } else {
      facts.no_master = fmt::format("{}: {}", hosts->source, expanded.error().reason);
    }
  }
  check_tasks(environment, facts);
  if (const auto components = said_number(environment, 2, {"SLURM_HET_SIZE"})) {
    facts.notes.push_back(
        fmt::format("warning: this Slurm job has {} components ({}), but cpprun uses only the {} "
                    "nodes of one of them\n  hint: to run one job on all components, set --nnodes, "
                    "--node-rank, --master-addr and --rdzv-id",
                    components->value, components->source, facts.nodes->value));
  }
}

// For a batch script itself or the shell of an allocation.
void read_allocation(const Environment& environment, SchedulerFacts& facts) {
  const auto nodes = said_number(environment, 2, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
  if (!nodes) return;
  facts.notes.push_back(
      fmt::format("this Slurm job has {} nodes ({}), but cpprun was started without srun and runs "
                  "only on this node\n  hint: start it on every node with `srun cpprun …`",
                  nodes->value, nodes->source));
}

}  // namespace

std::optional<SchedulerFacts> slurm_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "Slurm"};
  facts.job = job_of(environment);
  if (!facts.job) return std::nullopt;
  facts.port = {port_of(facts.job->value), facts.job->source};
  facts.gpus = said_number(environment, 1, {"SLURM_GPUS_ON_NODE"});
  is_step(environment) ? read_step(environment, facts) : read_allocation(environment, facts);
  return facts;
}

std::optional<int> kill_wait_in(std::string_view configuration) {
  std::optional<int> found;  // the last occurrence wins
  for (const auto line : split(configuration, '\n')) {
    const auto said = line.substr(0, line.find('#'));
    const auto equals = said.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(trimmed(said.substr(0, equals)));
    if (::strcasecmp(name.c_str(), "KillWait") != 0) continue;
    const auto seconds = whole_number(said.substr(equals + 1));
    if (seconds && *seconds >= 0) found = seconds;
  }
  return found;
}

std::optional<Said<std::chrono::seconds>> slurm_kill_wait(const Environment& environment,
                                                          const TextFile& read_file) {
  if (!said_text(environment, {"SLURM_JOB_ID"})) return std::nullopt;
  const auto path = said_text(environment, {"SLURM_CONF"});
  const auto text = read_file(path ? path->value : "/etc/slurm/slurm.conf");
  const auto seconds = text ? kill_wait_in(*text) : std::nullopt;
  if (!seconds) return std::nullopt;
  return Said<std::chrono::seconds>{std::chrono::seconds(*seconds),
                                    "KillWait=" + std::to_string(*seconds)};
}

// Variables: HPE's PALS application interface (PALS_*, and PMI_* with them); PBS: qsub(1B).

namespace {

void read_job(const Environment& environment, SchedulerFacts& facts) {
  const auto job = said_text(environment, {"PBS_JOBID"});
  const auto application = said_text(environment, {"PALS_APID"});
  const auto& id = job ? job : application;
  if (!id) return;
  facts.job = {(job ? "pbs-" : "pals-") + id->value, id->source};
  facts.port = {port_of(id->value), id->source};
}

// One task per node, started by PALS.
SchedulerFacts pals_facts(const Environment& environment, const Said<int>& node,
                          const TextFile& read_file) {
  SchedulerFacts facts{.name = "PALS", .node_rank = node};
  facts.nodes = said_number(environment, 1, {"PMI_SIZE"});
  const auto here = said_number(environment, 1, {"PMI_LOCAL_SIZE", "PALS_LOCAL_SIZE"});
  if (here && here->value > 1) {
    facts.diagnostics.push_back(
        crowded_text("mpiexec", tasks_here(*here), "mpiexec --ppn 1 cpprun …"));
  }
  read_job(environment, facts);
  const auto file = said_text(environment, {"PBS_NODEFILE"});
  if (!file) return facts;
  // On some sites only the first host has this file.
  const auto text = read_file(file->value);
  const auto hosts = text ? hosts_of_lines(*text) : std::vector<std::string>{};
  if (!hosts.empty()) {
    facts.master = {hosts.front(), file->source};
  } else {
    facts.no_master = fmt::format(
        "{}={} cannot be read on this host{}{}\n  hint: in the job script, use "
        "--master-addr=$(head -n 1 $PBS_NODEFILE)",
        file->source, file->value, text ? "" : ": ", text ? "" : text.error().reason);
  }
  return facts;
}

}  // namespace

std::optional<SchedulerFacts> pbs_facts(const Environment& environment, const TextFile& read_file) {
  if (const auto node = said_number(environment, 0, {"PALS_NODEID"})) {
    return pals_facts(environment, *node, read_file);
  }
  const auto job = said_text(environment, {"PBS_JOBID"});
  const auto file = said_text(environment, {"PBS_NODEFILE"});
  if (!job || !file) return std::nullopt;
  // In the job's script. PBS itself starts nothing on the other hosts.
  SchedulerFacts facts{.name = "PBS"};
  read_job(environment, facts);
  const auto text = read_file(file->value);
  const auto hosts = text ? hosts_of_lines(*text) : std::vector<std::string>{};
  if (hosts.size() > 1) {
    facts.notes.push_back(
        fmt::format("this PBS job has {} hosts ({}), but cpprun runs only on this host\n  hint: "
                    "start it on every host with `mpiexec --ppn 1 cpprun …` or `mpirun -N 1 cpprun "
                    "…`",
                    hosts.size(), file->source));
  }
  return facts;
}

// Variables: LSF's "Environment variables set for job execution" (LSB_*, and LSF_PM_TASKID of
// blaunch), and those of jsrun (JSM_NAMESPACE_*).

namespace {

// Parses LSB_MCPU_HOSTS, "batch5 1 h01 42 h02 42", or LSB_HOSTS, "h01 h01 h02".
std::vector<std::string> hosts_of(const Environment& environment, std::string& source) {
  std::vector<std::string> hosts;
  const auto counted = said_text(environment, {"LSB_MCPU_HOSTS"});
  const auto slots = said_text(environment, {"LSB_HOSTS"});
  if (!counted && !slots) return hosts;
  source = counted ? counted->source : slots->source;
  for (const auto word : split(counted ? counted->value : slots->value, ' ')) {
    if (word.empty() || (counted && exact_number<int>(word))) continue;
    if (std::ranges::find(hosts, word) == hosts.end()) hosts.emplace_back(word);
  }
  return hosts;
}

void read_jsrun(const Environment& environment, SchedulerFacts& facts) {
  facts.nodes = said_number(environment, 1, {"JSM_NAMESPACE_SIZE"});
  const auto here = said_number(environment, 1, {"JSM_NAMESPACE_LOCAL_SIZE"});
  if (here && here->value > 1) {
    facts.diagnostics.push_back(
        crowded_text("jsrun", tasks_here(*here), "jsrun --rs_per_host 1 cpprun …"));
  }
  // The order of jsrun's resource sets on the hosts is not known.
  facts.master_is_first = false;
}

}  // namespace

std::optional<SchedulerFacts> lsf_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "LSF"};
  const auto job = said_text(environment, {"LSB_JOBID"});
  if (!job) return std::nullopt;
  std::string source;
  auto hosts = hosts_of(environment, source);
  facts.node_rank = said_number(environment, 0, {"JSM_NAMESPACE_RANK"});
  const auto task = said_number(environment, 1, {"LSF_PM_TASKID"});
  if (facts.node_rank) {
    read_jsrun(environment, facts);
    // If the job's script runs on a host of its own, that host comes first and has no task.
    if (facts.nodes && hosts.size() == static_cast<std::size_t>(facts.nodes->value) + 1) {
      hosts.erase(hosts.begin());
    }
  } else if (task && !hosts.empty()) {
    facts.node_rank = {task->value - 1, task->source};
    facts.nodes = {static_cast<int>(hosts.size()), source};
  } else {
    return std::nullopt;
  }
  if (!hosts.empty()) facts.master = {hosts.front(), source};
  const auto index = said_text(environment, {"LSB_JOBINDEX"});
  const std::string id =
      index && index->value != "0" ? job->value + "_" + index->value : job->value;
  facts.job = {"lsf-" + id, job->source};
  facts.port = {port_of(id), job->source};
  return facts;
}

// Variables: Open MPI: mpirun(1) of 4.1, ENVIRONMENT, and those observed from ORTE and PRRTE.
// Hydra: the mpiexec of MPICH and Intel MPI.

namespace {

// "1294925824.0;tcp://10.0.0.1,192.168.0.1:45843;tcp6://[fd00::2]:41537" → 10.0.0.1, the host on
// which mpirun itself runs.
std::optional<std::string> host_of_uri(std::string_view uri) {
  constexpr std::string_view scheme = ";tcp://";
  const auto at = uri.find(scheme);
  if (at == std::string_view::npos) return std::nullopt;
  const auto rest = uri.substr(at + scheme.size());
  const auto host = rest.substr(0, rest.find_first_of(",:;"));
  if (host.empty()) return std::nullopt;
  return std::string(host);
}

// "prterun-node1-4711@1" → node1. The format of job names since Open MPI 5 (2023).
std::optional<std::string> host_of_namespace(std::string_view name) {
  constexpr std::string_view start = "prterun-";
  if (!name.starts_with(start)) return std::nullopt;
  name.remove_prefix(start.size());
  const auto host = name.substr(0, name.rfind('-'));
  if (host.empty()) return std::nullopt;
  return std::string(host);
}

void find_open_mpis_host(const Environment& environment, SchedulerFacts& facts) {
  // mpirun may run on a host that is not the first of the job, or not part of it.
  facts.master_is_first = false;
  const auto uri = said_text(environment, {"OMPI_MCA_orte_hnp_uri"});
  const auto name = said_text(environment, {"PMIX_NAMESPACE"});
  if (const auto host = uri ? host_of_uri(uri->value) : std::nullopt) {
    facts.master = {*host, uri->source};
  } else if (const auto named = name ? host_of_namespace(name->value) : std::nullopt) {
    facts.master = {*named, name->source};
  }
}

// mpirun starts a daemon on each host of the job. On its own host it acts as daemon 0 itself. That
// host may have no task, typically because it is a login node. The other hosts cannot detect this
// and look for the coordinator there.
void doubt_login_node(const Environment& environment, SchedulerFacts& facts) {
  const auto daemons = said_number(environment, 1, {"OMPI_MCA_ess_base_num_procs"});
  const auto hosts = said_number(environment, 1, {"OMPI_MCA_orte_num_nodes"});
  const auto uri = said_text(environment, {"OMPI_MCA_orte_local_daemon_uri"});
  if (facts.node_rank->value != 0 || !facts.master || !daemons || !hosts || !uri) return;
  const auto job = uri->value.substr(0, uri->value.find(';'));
  if (daemons->value <= hosts->value || job.ends_with(".0")) return;
  const auto own = said_text(environment, {"PMIX_HOSTNAME"});
  facts.doubt = fmt::format(
      "warning: the master is {}, the host where mpirun was started ({}), but mpirun uses only {} "
      "of {} hosts and may run no cpprun there\n  hint: if {} is a login node, use "
      "--master-addr={} (a host of the job)",
      facts.master->value, facts.master->source, hosts->value, daemons->value, facts.master->value,
      own ? own->value : "HOST");
}

}  // namespace

std::optional<SchedulerFacts> open_mpi_facts(const Environment& environment) {
  SchedulerFacts facts{.name = "Open MPI"};
  facts.nodes = said_number(environment, 1, {"OMPI_COMM_WORLD_SIZE"});
  facts.node_rank = said_number(environment, 0, {"OMPI_COMM_WORLD_RANK"});
  if (!facts.nodes || !facts.node_rank) return std::nullopt;
  // With one task per node, task ranks are node ranks.
  const auto here = said_number(environment, 1, {"OMPI_COMM_WORLD_LOCAL_SIZE"});
  const auto hosts = said_number(environment, 1, {"OMPI_MCA_orte_num_nodes"});
  if (hosts && facts.nodes->value > hosts->value) {
    const auto all =
        fmt::format("{} tasks on {} hosts ({})", facts.nodes->value, hosts->value, hosts->source);
    facts.diagnostics.push_back(crowded_text("mpirun", all, "mpirun -N 1 cpprun …"));
  } else if (here && here->value > 1) {
    facts.diagnostics.push_back(crowded_text("mpirun", tasks_here(*here), "mpirun -N 1 cpprun …"));
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
    facts.diagnostics.push_back(
        crowded_text("mpiexec", tasks_here(*here), "mpiexec -ppn 1 cpprun …"));
  }
  // Hydra does not tell its tasks the hosts. Inside a PBS job, PBS does.
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

// Kubernetes, Jobs with completion mode Indexed: JOB_COMPLETION_INDEX, and host names that end with
// it. A pod with a subdomain has its full name in its own /etc/hosts. Kubeflow's PyTorchJob sets
// PET_* variables, which are flags; older versions set RANK and WORLD_SIZE, counting nodes.

namespace {

// Finds the full name of `host` in lines such as "10.244.1.7
// train-2.train.default.svc.cluster.local  train-2".
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
        "the pods of this job have no DNS names\n  hint: set `subdomain` in the pod template to "
        "the name of the headless Service";
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

// Process names as in /proc/PID/comm, at most 15 bytes.

namespace {

struct KnownSender {
  std::string_view process;
  std::string_view who;
};

constexpr std::array known_senders = {
    KnownSender{"pbs_mom", "PBS ended the job"},
    KnownSender{"sbatchd", "LSF ended the job"},
    KnownSender{"res", "LSF ended the job"},
    KnownSender{"condor_starter", "HTCondor ended the job"},
    KnownSender{"sge_shepherd", "Grid Engine ended the job"},
    KnownSender{"systemd", "systemd stopped the unit (systemctl stop, shutdown or RuntimeMaxSec)"},
    KnownSender{"earlyoom", "earlyoom ended the job (low memory)"},
    KnownSender{"timeout", "the timeout command ended the job"},
    KnownSender{"mpirun", "mpirun ended the job"},
    KnownSender{"orterun", "mpirun ended the job"},
    KnownSender{"orted", "mpirun ended the job"},
    KnownSender{"prterun", "mpirun ended the job"},
    KnownSender{"prted", "mpirun ended the job"},
    KnownSender{"mpiexec", "mpiexec ended the job"},
    KnownSender{"mpiexec.hydra", "mpiexec ended the job"},
    KnownSender{"hydra_pmi_proxy", "mpiexec ended the job"},
};

template <std::size_t N>
bool is_name_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

// Slurm sends SIGTERM at the time limit and SIGKILL after KillWait.
bool is_at_time_limit(const Environment& environment, WallTime now) {
  const auto* text = find_variable(environment, "SLURM_JOB_END_TIME");
  const auto seconds = text == nullptr ? std::nullopt : exact_number<long long>(*text);
  if (!seconds) return false;
  const auto end = WallTime{std::chrono::seconds(*seconds)};
  constexpr auto clocks_differ_by = std::chrono::seconds(5);
  return now >= end - clocks_differ_by;
}

EndedBy ended_by_slurm(const Environment& environment, WallTime now) {
  if (!is_at_time_limit(environment, now)) {
    return {.who = "Slurm ended the job (scancel, preemption or a lost node)"};
  }
  return {
      .who = "Slurm ended the job (time limit)",
      .hint = "give the job more time (--time); --preemption-notice=slurm saves before the end"};
}

EndedBy ended_from_outside(const Environment& environment) {
  if (find_variable(environment, "KUBERNETES_SERVICE_HOST") == nullptr) {
    return {.who = "a process outside this container ended the job, such as docker stop"};
  }
  return {.who = "Kubernetes ended the pod (deletion, eviction, preemption or a node drain)"};
}

EndedBy ended_by_hangup(const SignalSender& sender) {
  constexpr std::array<std::string_view, 12> closers = {
      "bash", "sh",  "dash", "zsh",          "fish",         "ksh",
      "tcsh", "csh", "sshd", "sshd-session", "tmux: server", "screen"};
  const bool is_terminal = sender.is_kernel || is_name_of(sender.name, closers);
  return {
      .who = is_terminal ? "the terminal or SSH session was closed" : "",
      .hint = "to keep a job running, start it under nohup, setsid, tmux or systemd-run --user"};
}

}  // namespace

std::string to_text(const SignalSender& sender) {
  if (sender.is_kernel || sender.pid == 0) return "";
  return sender.name.empty() ? fmt::format("pid {} (already exited)", sender.pid)
                             : fmt::format("pid {} ({})", sender.pid, sender.name);
}

EndedBy ended_by(int signal, const SignalSender& sender, const Environment& environment,
                 WallTime now) {
  if (signal == SIGHUP) return ended_by_hangup(sender);
  if (signal == SIGXCPU && sender.is_kernel) return {.who = "the job reached its CPU time limit"};
  if (signal != SIGTERM || sender.is_kernel) return {};
  constexpr std::array<std::string_view, 2> of_slurm = {"slurmstepd", "slurmd"};
  if (is_name_of(sender.name, of_slurm)) return ended_by_slurm(environment, now);
  // A container's init process forwards signals that it received from the runtime.
  constexpr std::array<std::string_view, 4> inits = {"tini", "dumb-init", "docker-init",
                                                     "catatonit"};
  if (sender.pid == 0 || is_name_of(sender.name, inits)) return ended_from_outside(environment);
  const auto* found = std::ranges::find(known_senders, sender.name, &KnownSender::process);
  if (found == known_senders.end()) return {};
  return {.who = std::string(found->who)};
}

}  // namespace cpprun
