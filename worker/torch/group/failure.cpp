// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

namespace {

const char* advice_for(const std::string& cause, Exchange exchange) {
  if (means_peer_ended(cause)) {
    return "a peer has exited: see the rank that failed first";
  }
  if (means_time_is_up(cause) && exchange == Exchange::message) {
    return "the other rank hangs or made no matching call: compare ranks, order and tags";
  }
  if (means_time_is_up(cause)) {
    return "a peer hangs or made another call: CPPRUN_DISTRIBUTED_DEBUG=DETAIL shows which";
  }
  return "the group is no longer usable";
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

void require_dense(const at::Tensor& tensor, const char* operation) {
  if (!tensor.defined()) {
    throw DistributedError(fmt::format("{}: the tensor is undefined", operation));
  }
  if (!tensor.is_contiguous()) {
    throw DistributedError(fmt::format(
        "{}: the tensor is not contiguous: call contiguous() (x = x.contiguous())", operation));
  }
}

void require_rank(int rank, const ProcessGroup& group, const char* operation, const char* role) {
  if (rank >= 0 && rank < group.size()) return;
  throw DistributedError(fmt::format("{}: {} {} is not a rank of this group of {}", operation, role,
                                     rank, group.size()));
}

std::string describe(const at::Tensor& tensor) {
  return fmt::format("{} [{}] on {}", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes(), ", "),
                     c10::DeviceTypeName(tensor.device().type(), true));
}

void agree_on_text(const ProcessGroup& group, const std::string& call) {
  group.check()->agree(call, group.parts().family->steps);
}

}  // namespace cpprun
