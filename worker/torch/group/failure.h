// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The words of an operation that failed. Knows no LibTorch, only what its errors look like.

#include <string>

namespace cpprun {

enum class Exchange {
  collective,  // all ranks
  message,     // two of them
};

// `operation` is what was tried, `words` what LibTorch said of it: its first line is the cause, the
// rest a back-trace of its own inside.
std::string explain_failure(const std::string& operation, const std::string& words,
                            Exchange exchange);

// Whether the peers did not come in time.
bool means_time_is_up(const std::string& words);

// Whether a peer's connection is gone, in contrast to a peer that is late.
bool means_peer_ended(const std::string& words);

}  // namespace cpprun
