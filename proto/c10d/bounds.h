// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The limits of the store's protocol.

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace cpprun::bounds {

using namespace std::chrono_literals;

// A key with all its prefixes. PyTorch's libuv server rejects longer ones, so no client relies on
// more.
inline constexpr std::size_t store_key_bytes_max = 8 * 1024;
// A value. PyTorch's default server closes the connection at 8 MiB; its predecessor had no limit,
// and jobs made use of that.
inline constexpr std::uint64_t store_value_bytes_max = 256ULL * 1024 * 1024;
// Keys of one CHECK, WAIT, MULTI_GET or MULTI_SET; PyTorch's own limit.
inline constexpr std::uint64_t store_keys_per_request_max = 131'072;
// One request in all, which also bounds a MULTI_SET of many large values.
inline constexpr std::uint64_t store_request_bytes_max = 512ULL * 1024 * 1024;
// One reply in all: a MULTI_GET may name the same large value a hundred thousand times.
inline constexpr std::uint64_t store_reply_bytes_max = 1024ULL * 1024 * 1024;
// How long a client with an ambiguous first DELETE_KEY or APPEND (dialects A and B share the
// opcode) is watched for the bytes that only an APPEND has.
inline constexpr auto store_dialect_grace = 100ms;

}  // namespace cpprun::bounds
