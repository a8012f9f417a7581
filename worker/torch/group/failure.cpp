// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "worker/torch/group/process_group_parts.h"

namespace cpprun {

namespace {

const char* advice_for(const std::string& cause, Exchange exchange) {
  if (means_peer_ended(cause)) {
    return "a peer has exited: see the rank that failed first";
  }
  if (cause.find("Duplicate GPU detected") != std::string::npos) {
    return "two ranks use one GPU: start at most one worker for each, or use backend gloo";
  }
  if (means_time_is_up(cause) && exchange == Exchange::message) {
    return "the other rank hangs or made no matching call: compare ranks, order and tags";
  }
  if (means_time_is_up(cause)) {
    return "a peer hangs or made another call: CPPRUN_DISTRIBUTED_DEBUG=DETAIL shows which";
  }
  if (cause.find("communicator was aborted") != std::string::npos) {
    return "this rank has given up its connections: see the first error above";
  }
  return "the group is no longer usable";
}

// NCCL's errors continue below the first line: `ncclRemoteError: A call failed possibly …`, then
// `Last error:` and a line with the reason, which may be empty.
std::string cause_of(const std::string& words) {
  std::istringstream lines(words);
  std::string cause;
  std::string line;
  std::getline(lines, cause);
  if (cause.find("NCCL") == std::string::npos) return cause;
  std::string kind;
  bool is_reason = false;
  while (std::getline(lines, line)) {
    if (is_reason && !line.empty()) return cause + ": " + line;
    is_reason = is_reason || line == "Last error:";
    if (line.starts_with("nccl")) kind = line;
  }
  return kind.empty() ? cause : cause + ": " + kind;
}

}  // namespace

bool means_time_is_up(const std::string& words) {
  const auto has = [&words](const char* part) { return words.find(part) != std::string::npos; };
  return has("Timed out") || has("timed out") || has("timeout");
}

bool means_peer_ended(const std::string& words) {
  const auto has = [&words](const char* part) { return words.find(part) != std::string::npos; };
  return has("Connection closed") || has("Connection reset") || has("Broken pipe") ||
         has("ncclRemoteError") || has("remote process exited");
}

std::string explain_failure(const std::string& operation, const std::string& words,
                            Exchange exchange) {
  const std::string cause = cause_of(words);
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
