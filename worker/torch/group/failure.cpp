// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <fmt/format.h>

namespace cpprun {
namespace {

const char* advice_for(const std::string& cause, Exchange exchange) {
  if (means_peer_ended(cause)) {
    return "a peer has ended: look at the rank that failed first";
  }
  if (means_time_is_up(cause) && exchange == Exchange::message) {
    return "the other rank hangs, or calls nothing that fits: compare ranks, order and tags";
  }
  if (means_time_is_up(cause)) {
    return "a peer hangs or calls something else: CPPRUN_DISTRIBUTED_DEBUG=DETAIL tells which";
  }
  return "the group cannot be used any more";
}

}  // namespace

bool means_time_is_up(const std::string& words) {
  const auto has = [&words](const char* part) { return words.find(part) != std::string::npos; };
  return has("Timed out") || has("timed out") || has("timeout");
}

bool means_peer_ended(const std::string& words) {
  const auto has = [&words](const char* part) { return words.find(part) != std::string::npos; };
  return has("Connection closed") || has("Connection reset") || has("Broken pipe");
}

std::string explain_failure(const std::string& operation, const std::string& words,
                            Exchange exchange) {
  const std::string cause = words.substr(0, words.find('\n'));
  return fmt::format("{} failed: {} ({})", operation, cause, advice_for(cause, exchange));
}

}  // namespace cpprun
