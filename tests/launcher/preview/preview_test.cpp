// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/preview/preview.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace preview_test {

using namespace cpprun;

namespace {

using Value = std::optional<std::string>;

const ResolvedProgram program{
    {"/usr/bin/python3", "-u", "train.py"}, "/usr/bin/python3", "train.py"};

Config alone() {
  Config config;
  config.job = "";  // made up at the start
  config.local_world_size = 2;
  config.store = StoreWay::direct;
  return config;
}

// A node of two, with that rank.
Config one_of_two(int rank) {
  Config config = alone();
  config.job = "none";
  config.rendezvous = RendezvousMode::fixed_master;
  config.endpoint = {"10.0.0.1", 29500};
  config.nodes_min = config.nodes_max = 2;
  config.node_rank = rank;
  return config;
}

// Without findings.
HostFacts machine() {
  constexpr std::uint64_t gibibyte = 1ULL << 30;
  return {.host = "gpu1",
          .shared_memory = {"/dev/shm", 64 * gibibyte, 60 * gibibyte, ""},
          .temporary = {"/tmp", 99 * gibibyte, 50 * gibibyte, ""}};
}

PreviewFacts facts() {
  return {.version = "1.2.3",
          .machine = machine(),
          .directory = "/work",
          .interfaces = {{"lo", true, true, {"127.0.0.1"}}, {"eth0", true, false, {"10.0.0.1"}}},
          .master_addresses = {"10.0.0.1"},
          .local_address = "10.0.0.1",
          .hosting = Hosting::must};
}

Preview preview(const Config& config, const PreviewFacts& known = facts()) {
  auto made = preview_of(config, program, known);
  REQUIRE(made);
  return *made;
}

const PreviewVariables& variables(const Preview& preview, std::size_t worker = 0) {
  return preview.nodes.front().workers.at(worker).variables;
}

bool is_unknown(const Preview& preview, const std::string& what) {
  const auto all = unknowns_of(preview);
  return std::ranges::any_of(all, [&](const Unknown& each) { return each.what == what; });
}

}  // namespace

TEST_CASE("a node alone knows all ranks, but neither its port nor its job's id") {
  const auto seen = preview(alone());
  CHECK(seen.meeting == "standalone");
  CHECK_FALSE(seen.master_port);
  CHECK(variables(seen, 1).at("RANK") == Value("1"));
  CHECK(variables(seen, 1).at("WORLD_SIZE") == Value("2"));
  CHECK(variables(seen).at("MASTER_ADDR") == Value("127.0.0.1"));
  CHECK(variables(seen).at("MASTER_PORT") == Value());
  CHECK(variables(seen).at("TORCHELASTIC_RUN_ID") == Value());
  CHECK(seen.nodes.front().group_rank == 0);
  CHECK(seen.nodes.front().workers.at(1).rank == 1);
  CHECK(is_unknown(seen, "MASTER_PORT"));
  CHECK_FALSE(is_unknown(seen, "RANK, ROLE_RANK"));
}

TEST_CASE("the first of several nodes knows its own ranks, but not the world size") {
  const auto seen = preview(one_of_two(0));
  CHECK(seen.master_port == 29500);
  CHECK(variables(seen, 1).at("RANK") == Value("1"));
  CHECK(variables(seen).at("GROUP_WORLD_SIZE") == Value("2"));
  CHECK(variables(seen).at("WORLD_SIZE") == Value());
  CHECK(variables(seen).at("MASTER_PORT") == Value("29500"));
  CHECK(variables(seen).at("GLOO_SOCKET_IFNAME") == Value("eth0"));
  CHECK(seen.nodes.front().interface == "eth0");
  CHECK(is_unknown(seen, "WORLD_SIZE, ROLE_WORLD_SIZE"));
}

TEST_CASE("the ranks of a later node depend on the nodes before it, and are unknown") {
  const auto seen = preview(one_of_two(1));
  CHECK(seen.nodes.front().group_rank == 1);
  CHECK_FALSE(seen.nodes.front().workers.at(0).rank);
  CHECK(variables(seen).at("RANK") == Value());
  CHECK(variables(seen).at("LOCAL_RANK") == Value("0"));
  CHECK(is_unknown(seen, "RANK, ROLE_RANK"));
}

TEST_CASE("an elastic round has no ranks before it is sealed") {
  Config config = one_of_two(0);
  config.rendezvous = RendezvousMode::endpoint;
  config.node_rank = {};
  config.nodes_max = 4;
  const auto seen = preview(config);
  CHECK(seen.meeting == "c10d");
  CHECK_FALSE(seen.nodes.front().group_rank);
  CHECK(variables(seen).at("GROUP_RANK") == Value());
  CHECK(variables(seen).at("GROUP_WORLD_SIZE") == Value());
  CHECK(variables(seen).at("RANK") == Value());
}

TEST_CASE("the port of a local store is unknown, and a token always is") {
  Config config = one_of_two(0);
  config.store = StoreWay::local;
  auto known = facts();
  known.has_secret = true;
  const auto seen = preview(config, known);
  CHECK(seen.has_secret);
  CHECK(variables(seen).at("MASTER_ADDR") == Value("127.0.0.1"));
  CHECK(variables(seen).at("CPPRUN_MASTER_ADDR") == Value("10.0.0.1"));
  CHECK(variables(seen).at("MASTER_PORT") == Value());
  CHECK(variables(seen).at("CPPRUN_NODE_TOKEN") == Value());
  CHECK(variables(seen).at("TORCHELASTIC_ERROR_FILE") == Value());
}

TEST_CASE("of the inherited variables only those of the collectives are shown") {
  auto known = facts();
  known.environment = {{"NCCL_DEBUG", "INFO"}, {"WANDB_API_KEY", "hush"}, {"HF_TOKEN", "hush"}};
  CHECK(preview(alone(), known).nodes.front().inherited == Environment{{"NCCL_DEBUG", "INFO"}});
}

TEST_CASE("a master on a loopback address has no interface before other nodes join") {
  auto known = facts();
  known.local_address = "127.0.1.1";
  known.interfaces.front().addresses.emplace_back("127.0.1.1");
  const auto seen = preview(one_of_two(0), known);
  CHECK(seen.nodes.front().interface.empty());
  CHECK(variables(seen).at("GLOO_SOCKET_IFNAME") == Value());
}

TEST_CASE("a master whose name is not resolved leaves address and interface unknown") {
  auto known = facts();
  known.local_address = "";
  known.master_addresses = {};
  const auto seen = preview(one_of_two(0), known);
  CHECK(seen.nodes.front().address.empty());
  CHECK(variables(seen).at("NCCL_SOCKET_IFNAME") == Value());
}

TEST_CASE("the number of used restarts is unknown for a job that resumes a state file") {
  CHECK(variables(preview(alone())).at("TORCHELASTIC_RESTART_COUNT") == Value("0"));
  Config config = alone();
  config.restart_state_file = "state";
  const auto seen = preview(config);
  CHECK(variables(seen).at("TORCHELASTIC_RESTART_COUNT") == Value());
  CHECK(is_unknown(seen, "TORCHELASTIC_RESTART_COUNT"));
}

TEST_CASE("an interface that does not exist is rejected, as at the start") {
  auto known = facts();
  known.environment = {{"GLOO_SOCKET_IFNAME", "eth7"}};
  CHECK_FALSE(preview_of(one_of_two(0), program, known));
}

TEST_CASE("workers take the visible GPUs in order") {
  auto known = facts();
  known.devices = 2;
  known.machine.gpus = {.on_bus = 4, .in_driver = 4, .usable = 4};
  known.environment = {{"CUDA_VISIBLE_DEVICES", "2, 3"}};
  const auto seen = preview(alone(), known);
  CHECK(seen.nodes.front().gpus == 2);
  CHECK(seen.nodes.front().gpus_there == 4);
  CHECK(seen.nodes.front().workers.at(1).gpu == "3");
  Config config = alone();
  config.virtual_local_rank = true;
  CHECK(preview(config, known).nodes.front().workers.at(0).gpu == "2");
  known.devices = 1;
  CHECK(preview(alone(), known).nodes.front().workers.at(1).gpu.empty());
}

TEST_CASE("commands have the script's arguments, the local rank and the processors") {
  Config config = alone();
  config.local_rank_flag = "local-rank";
  config.program.arguments = {"--to=out${local_rank}"};
  auto known = facts();
  known.cpus = {{0, 1}, {2, 3}};
  const auto worker = preview(config, known).nodes.front().workers.at(1);
  CHECK(worker.command == std::vector<std::string>{"/usr/bin/python3", "-u", "train.py",
                                                   "--local-rank=1", "--to=out1"});
  CHECK(worker.cpus == "2-3");
}

TEST_CASE("a warning of the start is a note") {
  auto known = facts();
  known.master_addresses = {"10.9.9.9"};
  const auto notes = preview(one_of_two(0), known).nodes.front().notes;
  CHECK(std::ranges::any_of(notes, [](const auto& note) {
    return note.find("is not an address of this machine") != std::string::npos;
  }));
}

TEST_CASE("a finding about the machine is a note with its hint") {
  auto known = facts();
  known.machine.limits.open_files = 1024;
  const auto notes = preview(one_of_two(0), known).nodes.front().notes;
  CHECK(std::ranges::any_of(notes, [](const auto& note) {
    return note.starts_with("open files are limited to 1024 per process\n  hint: raise the hard");
  }));
}

TEST_CASE("with several cpprunds the leader is unknown") {
  Config config = one_of_two(1);
  config.rendezvous = RendezvousMode::endpoint;
  config.places = {{"10.0.0.1", 29500}, {"fd00::1", 29400}};
  config.store = StoreWay::local;
  const auto seen = preview(config);
  CHECK(seen.master_host.empty());
  CHECK_FALSE(seen.master_port);
  CHECK(seen.places == std::vector<std::string>{"10.0.0.1:29500", "[fd00::1]:29400"});
  CHECK(variables(seen).at("CPPRUN_MASTER_ADDR") == Value());
  CHECK(variables(seen).at("MASTER_ADDR") == Value("127.0.0.1"));
  CHECK(is_unknown(seen, "CPPRUN_MASTER_ADDR"));
  config.store = StoreWay::direct;
  CHECK(variables(preview(config)).at("MASTER_ADDR") == Value());
  CHECK(variables(preview(config)).at("MASTER_PORT") == Value());
  CHECK(is_unknown(preview(config), "CPPRUN_MASTER_ADDR, MASTER_ADDR"));
}

TEST_CASE("with an etcd rendezvous the host of the job is unknown") {
  Config config = one_of_two(1);
  config.rendezvous = RendezvousMode::endpoint;
  config.endpoint = {"10.0.0.9", 2379};
  config.etcd = EtcdMeeting{.endpoints = "https://10.0.0.9:2379,https://10.0.0.8:2379"};
  config.store = StoreWay::direct;
  const auto seen = preview(config);
  CHECK(seen.meeting == "etcd");
  CHECK(seen.master_host.empty());
  CHECK_FALSE(seen.master_port);
  CHECK(seen.places.empty());
  CHECK(seen.etcd == std::vector<std::string>{"https://10.0.0.9:2379", "https://10.0.0.8:2379"});
  CHECK(seen.nodes.front().hosting == "here, if etcd elects this node");
  CHECK(variables(seen).at("MASTER_ADDR") == Value());
  const auto unknown = unknowns_of(seen);
  const auto why = [&](const std::string& what) {
    const auto found = std::ranges::find(unknown, what, &Unknown::what);
    return found == unknown.end() ? std::string() : found->why;
  };
  CHECK(why("CPPRUN_MASTER_ADDR, MASTER_ADDR") ==
        "the address of the node that is elected through etcd");
  CHECK(why("MASTER_PORT") == "a free port of the node that is elected through etcd");
}

}  // namespace preview_test
