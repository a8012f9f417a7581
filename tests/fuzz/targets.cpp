// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/targets.h"

#include <algorithm>
#include <array>

#include "tests/fuzz/etcd_targets.h"
#include "tests/fuzz/file_targets.h"
#include "tests/fuzz/hang_targets.h"
#include "tests/fuzz/kept_targets.h"
#include "tests/fuzz/stream_targets.h"
#include "tests/fuzz/text_targets.h"
#include "tests/fuzz/wire_targets.h"

namespace cpprun::fuzz {

namespace {

constexpr std::array all_targets = {
    Target{"store", "a store client's requests, in all dialects", store_requests},
    Target{"reply", "a store's replies", store_replies},
    Target{"link", "frames between agent and coordinator", link_frames},
    Target{"coordinator", "an agent's frames to a coordinator with a job", coordinator_link},
    Target{"streams", "frames that carry workers' bytes to their store", stream_frames},
    Target{"secret", "a file of secrets", secret_file},
    Target{"token", "a token, as a client sends it", token_text},
    Target{"sniff", "the first bytes of a connection", sniffed_bytes},
    Target{"http", "a browser's requests", http_requests},
    Target{"error_file", "a worker's error.json", error_file},
    Target{"heartbeat", "a worker's heartbeat file", heartbeat_file},
    Target{"safetensors", "the head of a checkpoint", safetensors_head},
    Target{"pickle", "the pickle in a .pth file", pickle_file},
    Target{"rdzv_conf", "--rdzv-conf", rendezvous_conf},
    Target{"config", "the file of --config", config_file},
    Target{"endpoint", "--rdzv-endpoint, --master-addr, -r and -t", endpoint_text},
    Target{"output", "a worker's output", worker_output},
    Target{"etcd", "the answers of etcd's gateway", etcd_answers},
    Target{"etcd_endpoints", "etcd's endpoints", etcd_endpoints},
    Target{"standby", "what a cpprund sends to its standby", standby_frames},
    Target{"store_log", "the log of a store, read by another cpprund", store_log},
    Target{"log_file", "the file of such a log", log_file},
    Target{"traceback", "a worker's traceback", traceback},
    Target{"flight_record", "a worker's flight record", flight_record},
    Target{"py_spy", "the output of py-spy", py_spy},
    Target{"python_memory", "the memory of a Python worker", python_memory},
    Target{"observations", "what was read from workers, through a pipe", observations},
    Target{"hang_evidence", "an agent's evidence about a hang", hang_evidence},
};

}  // namespace

std::span<const Target> targets() {
  return all_targets;
}

const Target* find_target(std::string_view name) {
  const auto found = std::find_if(all_targets.begin(), all_targets.end(),
                                  [&](const Target& target) { return target.name == name; });
  return found == all_targets.end() ? nullptr : &*found;
}

}  // namespace cpprun::fuzz
