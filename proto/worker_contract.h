// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The contract between launcher and worker: the heartbeat file, and the names of the environment
// variables, which are torchrun's own, so that PyTorch scripts need no change. Shared by `launcher`
// (writes the variables) and `worker/env` (reads them). Source: torch.distributed.run's
// documentation, "Environment Variables".

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/heartbeat_file.h"
#include "proto/result.h"

namespace cpprun::contract {

inline constexpr std::string_view rank = "RANK";
inline constexpr std::string_view local_rank = "LOCAL_RANK";
inline constexpr std::string_view group_rank = "GROUP_RANK";
inline constexpr std::string_view role_rank = "ROLE_RANK";
inline constexpr std::string_view role_name = "ROLE_NAME";
inline constexpr std::string_view world_size = "WORLD_SIZE";
inline constexpr std::string_view local_world_size = "LOCAL_WORLD_SIZE";
inline constexpr std::string_view group_world_size = "GROUP_WORLD_SIZE";
inline constexpr std::string_view role_world_size = "ROLE_WORLD_SIZE";
inline constexpr std::string_view master_addr = "MASTER_ADDR";
inline constexpr std::string_view master_port = "MASTER_PORT";
inline constexpr std::string_view restart_count = "TORCHELASTIC_RESTART_COUNT";
inline constexpr std::string_view max_restarts = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr std::string_view run_id = "TORCHELASTIC_RUN_ID";
inline constexpr std::string_view use_agent_store = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr std::string_view error_file = "TORCHELASTIC_ERROR_FILE";
inline constexpr std::string_view signals_to_handle = "TORCHELASTIC_SIGNALS_TO_HANDLE";
inline constexpr std::string_view nccl_async_error_handling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr std::string_view omp_num_threads = "OMP_NUM_THREADS";
inline constexpr std::string_view cuda_visible_devices = "CUDA_VISIBLE_DEVICES";
inline constexpr std::string_view hip_visible_devices = "HIP_VISIBLE_DEVICES";
inline constexpr std::string_view gloo_socket_ifname = "GLOO_SOCKET_IFNAME";
// 1 makes gloo connect two ranks when they first communicate.
inline constexpr std::string_view gloo_lazy_init = "TORCH_GLOO_LAZY_INIT";
inline constexpr std::string_view tp_socket_ifname = "TP_SOCKET_IFNAME";
inline constexpr std::string_view nccl_socket_ifname = "NCCL_SOCKET_IFNAME";

// cpprun's own. The master's real address: MASTER_ADDR is 127.0.0.1 if each node forwards the store
// itself (--store=local).
inline constexpr std::string_view real_master_addr = "CPPRUN_MASTER_ADDR";
// A random token that all processes of a job on one machine share, so that cleanup recognizes them
// even after they left their session and process group.
inline constexpr std::string_view node_token = "CPPRUN_NODE_TOKEN";
// The Unix socket on which a worker serves its stacks (launcher/hang/probe.h).
inline constexpr std::string_view probe_socket = "CPPRUN_PROBE_SOCKET";
// The Unix socket on which a worker receives its place in each round (--on-failure=reconfigure).
inline constexpr std::string_view round_socket = "CPPRUN_ROUND_SOCKET";
// DETAIL makes C++ ranks compare their collective calls before they run; OFF is the default. The
// second variable is PyTorch's, with the same effect on Python ranks; the first takes precedence if
// both are set.
inline constexpr std::string_view distributed_debug = "CPPRUN_DISTRIBUTED_DEBUG";
inline constexpr std::string_view torch_distributed_debug = "TORCH_DISTRIBUTED_DEBUG";

}  // namespace cpprun::contract

namespace cpprun {

// A worker's heartbeat file; heartbeat_file.h describes it. This variable has the file's name;
// without it there is no heartbeat.
inline constexpr std::string_view heartbeat_variable = CPPRUN_HEARTBEAT_VARIABLE;
inline constexpr std::string_view heartbeat_magic = CPPRUN_HEARTBEAT_MAGIC;
inline constexpr std::uint32_t heartbeat_version = CPPRUN_HEARTBEAT_VERSION;

// Of 1 to 16 letters, digits, '_', '.', '-' and '/'.
inline bool is_metric_name(std::string_view name) {
  return !name.empty() && name.size() <= CPPRUN_HEARTBEAT_NAME_BYTES &&
         std::ranges::all_of(name, [](unsigned char byte) {
           return std::isalnum(byte) != 0 || byte == '_' || byte == '.' || byte == '-' ||
                  byte == '/';
         });
}

// The same bytes, with the initial values of a new file.
struct HeartbeatRecord {
  char magic[8] = {};
  std::uint32_t version = heartbeat_version;
  std::int32_t rank = 0;
  std::int32_t pid = 0;
  std::uint32_t checkpoint_seconds = 0;
  std::uint64_t beats = 0;
  std::int64_t last_nanoseconds = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  std::uint64_t checkpoint_step = 0;
  std::uint64_t total = 0;
  cpprun_heartbeat_metric metrics[CPPRUN_HEARTBEAT_METRICS] = {};
};
static_assert(sizeof(HeartbeatRecord) == 264 && sizeof(cpprun_heartbeat) == 264);
static_assert(offsetof(HeartbeatRecord, last_nanoseconds) ==
              offsetof(cpprun_heartbeat, last_nanoseconds));
static_assert(offsetof(HeartbeatRecord, total) == 64 && offsetof(cpprun_heartbeat, total) == 64);

inline Result<HeartbeatRecord> parse_heartbeat(std::string_view bytes) {
  cpprun_heartbeat read{};
  switch (cpprun_heartbeat_parse(bytes.data(), bytes.size(), &read)) {
    case cpprun_heartbeat_ok:
      break;
    case cpprun_heartbeat_bad_size:
      return failure("a heartbeat file has 264 or 64 bytes, this one has " +
                     std::to_string(bytes.size()));
    case cpprun_heartbeat_bad_magic:
      return failure("not a heartbeat file: it does not begin with CPPRUNHB");
    case cpprun_heartbeat_bad_version:
      return failure("a heartbeat file of version " + std::to_string(read.version) +
                     "; only version " + std::to_string(heartbeat_version) + " is supported");
  }
  return std::bit_cast<HeartbeatRecord>(read);
}

}  // namespace cpprun
