// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of a process group.

#include <chrono>
#include <cstddef>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// A collective that takes longer has a hanging peer. PyTorch waits thirty minutes; five tolerate a
// slow file system and still end a stuck job soon.
inline constexpr std::chrono::milliseconds worker_collective_wait_max = 5min;
// Interval at which a rank retries to reach the store: not noticeable, and cheap even for a
// thousand ranks.
inline constexpr std::chrono::milliseconds worker_join_retry = 50ms;
// Interval at which a rank that waits in a collective checks which one the others wait in. It takes
// three checks until it reports, so less than ten seconds.
inline constexpr std::chrono::milliseconds worker_stall_interval = 2500ms;
// Other ranks that it checks, and the timeout of the store.
inline constexpr int worker_stall_ranks_max = 64;
inline constexpr std::chrono::milliseconds worker_stall_store_wait = 5s;
// Operations that were queued on the GPU and are watched at a time; CUDA itself blocks a program
// that is about a thousand kernels ahead of the GPU.
inline constexpr std::size_t worker_stall_queue_max = 256;
// How long one of them may take before the ranks are compared: it may be queued behind a long
// computation.
inline constexpr std::chrono::milliseconds worker_stall_queued_min = 30s;
// Tensors that are broadcast as one. PyTorch's figure.
inline constexpr std::size_t coalesced_broadcast_bytes = std::size_t{250} << 20U;

}  // namespace cpprun::bounds
