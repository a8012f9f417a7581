// SPDX-License-Identifier: BSD-3-Clause
#include "worker/env/context_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "proto/host_list.h"
#include "proto/text.h"
#include "proto/worker_contract.h"

namespace cpprun {

bool Variables::has(std::string_view name) const {
  const auto found = environment_.find(std::string(name));
  // An empty value counts as unset: shells and batch systems clear variables that way.
  return found != environment_.end() && !found->second.empty();
}

std::string Variables::text(std::string_view name) const {
  const auto found = environment_.find(std::string(name));
  return found == environment_.end() ? std::string() : found->second;
}

std::optional<int> Variables::number(std::string_view name, int least, int most) {
  if (!has(name)) return std::nullopt;
  const std::string value = text(name);
  const auto parsed = exact_number<int>(value);
  if (parsed && least <= *parsed && *parsed <= most) return parsed;
  add_error(fmt::format("{}={} is not a whole number from {} to {}", name, value, least, most));
  return std::nullopt;
}

int Variables::number_or(std::string_view name, int least, int most, int fallback) {
  return number(name, least, most).value_or(fallback);
}

int Variables::required(std::string_view name, int least, int most, std::string_view hint) {
  if (!has(name)) {
    add_error(fmt::format("{} is not set: {}", name, hint));
    return least;
  }
  return number(name, least, most).value_or(least);
}

void Variables::add_error(std::string error) {
  diagnostics_.push_back(std::move(error));
}

namespace {

constexpr int count_max = std::numeric_limits<int>::max();
constexpr int port_max = std::numeric_limits<std::uint16_t>::max();
// Spread ports by job number, so that two jobs with the same head node do not share a port.
constexpr int slurm_port_first = 20000;
constexpr int slurm_port_span = 20000;
// torchrun's default.
constexpr int default_port = 29500;

constexpr std::string_view launch_it =
    "start the program with cpprun or torchrun, or unset RANK, WORLD_SIZE and LOCAL_RANK to run it "
    "as a single process";

LaunchedBy who_launched(const Variables& variables) {
  const bool ranked = variables.has(contract::rank) || variables.has(contract::world_size) ||
                      variables.has(contract::local_rank);
  if (ranked) return LaunchedBy::torchrun;
  // mpirun inside a Slurm job: Open MPI numbers the processes, Slurm only mpirun's daemons.
  if (variables.has("OMPI_COMM_WORLD_RANK")) return LaunchedBy::open_mpi;
  // Slurm's interactive shell has a task count but no SLURM_PROCID: it is not a task.
  if (variables.has("SLURM_PROCID")) return LaunchedBy::slurm;
  return LaunchedBy::none;
}

void check_below(Variables& variables, std::string_view small_name, int small,
                 std::string_view large_name, int large) {
  if (small < large) return;
  variables.add_error(fmt::format("{}={} must be below {}={}: ranks count from zero", small_name,
                                  small, large_name, large));
}

void check_at_most(Variables& variables, std::string_view small_name, int small,
                   std::string_view large_name, int large) {
  if (small <= large) return;
  variables.add_error(
      fmt::format("{}={} must not exceed {}={}", small_name, small, large_name, large));
}

// Every rank must find the others. A single rank needs no store.
void read_meeting_point(Variables& variables, Context& context) {
  context.store.address = variables.text(contract::master_addr);
  context.store.port =
      static_cast<std::uint16_t>(variables.number_or(contract::master_port, 0, port_max, 0));
  // PyTorch compares with exactly this text, so any other value means false here too.
  context.store.hosted_by_launcher = variables.text(contract::use_agent_store) == "True";
  context.store.use_libuv = variables.text("USE_LIBUV") != "0";
  if (context.alone()) return;
  if (context.store.address.empty()) {
    variables.add_error(
        fmt::format("MASTER_ADDR is not set: with WORLD_SIZE={}, set it to the host name or "
                    "address of the machine that runs rank 0",
                    context.world_size));
  }
  if (!variables.has(contract::master_port)) {
    variables.add_error(
        fmt::format("MASTER_PORT is not set: with WORLD_SIZE={}, set it to a free TCP port of "
                    "MASTER_ADDR, the same on all ranks",
                    context.world_size));
  } else if (variables.text(contract::master_port) == "0") {
    variables.add_error("MASTER_PORT=0 is not a valid port: use a port from 1 to 65535");
  }
}

Context read_torchrun(Variables& variables) {
  Context context;
  context.launched_by = LaunchedBy::torchrun;
  const int world = variables.required(contract::world_size, 1, count_max, launch_it);
  const int rank = variables.required(contract::rank, 0, count_max, launch_it);
  const int local_world = variables.number_or(contract::local_world_size, 1, count_max, 1);
  const int local = variables.number_or(contract::local_rank, 0, count_max, 0);
  const int groups = variables.number_or(contract::group_world_size, 1, count_max, 1);
  const int group = variables.number_or(contract::group_rank, 0, count_max, 0);
  if (variables.diagnostics().empty()) {
    check_below(variables, contract::rank, rank, contract::world_size, world);
    check_at_most(variables, contract::local_world_size, local_world, contract::world_size, world);
    // LOCAL_RANK is often set by hand without LOCAL_WORLD_SIZE, whose default then means nothing.
    if (variables.has(contract::local_world_size)) {
      check_below(variables, contract::local_rank, local, contract::local_world_size, local_world);
    }
    if (variables.has(contract::group_world_size)) {
      check_below(variables, contract::group_rank, group, contract::group_world_size, groups);
    }
  }
  context.rank = Rank{rank};
  context.world_size = world;
  context.local_rank = LocalRank{local};
  context.local_world_size = local_world;
  context.group_rank = GroupRank{group};
  context.group_world_size = groups;
  context.role_rank = Rank{variables.number_or(contract::role_rank, 0, count_max, rank)};
  context.role_world_size = variables.number_or(contract::role_world_size, 1, count_max, world);
  if (variables.has(contract::role_name)) context.role_name = variables.text(contract::role_name);
  return context;
}

void read_slurm_meeting_point(Variables& variables, Context& context) {
  context.store.use_libuv = variables.text("USE_LIBUV") != "0";
  context.store.address = variables.text(contract::master_addr);
  if (context.store.address.empty()) {
    const std::string step_nodes = variables.text("SLURM_STEP_NODELIST");
    const auto hosts =
        expand_hosts(step_nodes.empty() ? variables.text("SLURM_JOB_NODELIST") : step_nodes);
    if (hosts) context.store.address = hosts->front();
  }
  if (context.store.address.empty() && !context.alone()) {
    variables.add_error(
        "neither MASTER_ADDR nor SLURM_JOB_NODELIST is set: set MASTER_ADDR to the host of task 0");
  }
  const int job = variables.number_or("SLURM_JOB_ID", 0, count_max, 0);
  const int derived = slurm_port_first + job % slurm_port_span;
  context.store.port =
      static_cast<std::uint16_t>(variables.number_or(contract::master_port, 1, port_max, derived));
}

Context read_slurm(Variables& variables) {
  Context context;
  context.launched_by = LaunchedBy::slurm;
  // A step may be smaller than its job, and this process belongs to the step.
  const bool step = variables.has("SLURM_STEP_NUM_TASKS");
  const std::string_view size_name = step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  const int world = variables.required(size_name, 1, count_max, "start the program with srun");
  const int rank = variables.required("SLURM_PROCID", 0, count_max, "start the program with srun");
  if (variables.diagnostics().empty()) {
    check_below(variables, "SLURM_PROCID", rank, size_name, world);
  }
  const int group = variables.number_or("SLURM_NODEID", 0, count_max, 0);
  const int local = variables.number_or("SLURM_LOCALID", 0, count_max, 0);
  const bool step_tasks = variables.has("SLURM_STEP_TASKS_PER_NODE");
  int local_world = tasks_of_node(
      variables.text(step_tasks ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE"), group);
  if (local_world == 0) {
    local_world = variables.number_or("SLURM_NTASKS_PER_NODE", 1, count_max, local + 1);
  }
  context.rank = context.role_rank = Rank{rank};
  context.world_size = context.role_world_size = world;
  context.local_rank = LocalRank{local};
  context.local_world_size = local_world;
  context.group_rank = GroupRank{group};
  const bool step_nodes = variables.has("SLURM_STEP_NUM_NODES");
  context.group_world_size = variables.number_or(
      step_nodes ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES", 1, count_max, group + 1);
  context.run_id = variables.text("SLURM_JOB_ID");
  read_slurm_meeting_point(variables, context);
  return context;
}

// mpirun sets ranks but not the host of rank 0. On a single machine that is known.
Context read_open_mpi(Variables& variables) {
  constexpr std::string_view hint = "start the program with mpirun";
  Context context;
  context.launched_by = LaunchedBy::open_mpi;
  const int rank = variables.required("OMPI_COMM_WORLD_RANK", 0, count_max, hint);
  const int world = variables.required("OMPI_COMM_WORLD_SIZE", 1, count_max, hint);
  const int local = variables.number_or("OMPI_COMM_WORLD_LOCAL_RANK", 0, count_max, 0);
  const int local_world = variables.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 1, count_max, 1);
  if (variables.diagnostics().empty()) {
    check_below(variables, "OMPI_COMM_WORLD_RANK", rank, "OMPI_COMM_WORLD_SIZE", world);
    check_below(variables, "OMPI_COMM_WORLD_LOCAL_RANK", local, "OMPI_COMM_WORLD_LOCAL_SIZE",
                local_world);
  }
  context.rank = context.role_rank = Rank{rank};
  context.world_size = context.role_world_size = world;
  context.local_rank = LocalRank{local};
  context.local_world_size = local_world;
  context.store.use_libuv = variables.text("USE_LIBUV") != "0";
  context.store.address = variables.text(contract::master_addr);
  if (context.store.address.empty() && local_world >= world) context.store.address = "127.0.0.1";
  if (context.store.address.empty()) {
    variables.add_error(
        "MASTER_ADDR is not set: mpirun does not export the host of rank 0; add "
        "-x MASTER_ADDR=<host of rank 0> to mpirun's options");
  }
  context.store.port = static_cast<std::uint16_t>(
      variables.number_or(contract::master_port, 1, port_max, default_port));
  return context;
}

// Started by hand, perhaps with the rank in the program's arguments: reads the meeting point.
void read_optional_meeting_point(Variables& variables, Context& context) {
  context.store.use_libuv = variables.text("USE_LIBUV") != "0";
  context.store.address = variables.text(contract::master_addr);
  context.store.port =
      static_cast<std::uint16_t>(variables.number_or(contract::master_port, 1, port_max, 0));
}

// Case-insensitive, like LibTorch's own variable. INFO only adds output.
void read_debug_level(Variables& variables, Context& context) {
  const bool ours = variables.has(contract::distributed_debug);
  const auto name = ours ? contract::distributed_debug : contract::torch_distributed_debug;
  const std::string value = variables.text(name);
  std::string level = value;
  for (char& letter : level) {
    if ('a' <= letter && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  }
  context.distributed_debug = level == "DETAIL";
  if (level.empty() || level == "OFF" || level == "INFO" || level == "DETAIL") return;
  variables.add_error(fmt::format("{}={} is invalid (valid: OFF, INFO, DETAIL)", name, value));
}

}  // namespace

Result<Context> parse_context(const Environment& environment) {
  Variables variables(environment);
  Context context;
  switch (who_launched(variables)) {
    case LaunchedBy::torchrun:
      context = read_torchrun(variables);
      read_meeting_point(variables, context);
      break;
    case LaunchedBy::slurm:
      context = read_slurm(variables);
      break;
    case LaunchedBy::open_mpi:
      context = read_open_mpi(variables);
      break;
    case LaunchedBy::none:
      read_optional_meeting_point(variables, context);
      break;
  }
  context.restart_count = variables.number_or(contract::restart_count, 0, count_max, 0);
  context.max_restarts = variables.number_or(contract::max_restarts, 0, count_max, 0);
  if (variables.has(contract::run_id)) context.run_id = variables.text(contract::run_id);
  context.error_file = variables.text(contract::error_file);
  context.gloo_interfaces = variables.text(contract::gloo_socket_ifname);
  context.gloo_lazy = variables.text(contract::gloo_lazy_init) == "1";
  if (const auto devices = environment.find(std::string(contract::cuda_visible_devices));
      devices != environment.end()) {
    context.cuda_visible_devices = devices->second;
  }
  read_debug_level(variables, context);
  if (!variables.diagnostics().empty()) {
    return failure(fmt::format("cannot determine this worker's rank from its environment: {}",
                               fmt::join(variables.diagnostics(), "; ")));
  }
  return context;
}

}  // namespace cpprun
