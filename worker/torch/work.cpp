#include "worker/torch/work.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "worker/torch/distributed_error.h"

namespace cpprun {

struct Work::Parts {
  c10::intrusive_ptr<c10d::Work> native;
  Start start;
  std::vector<std::function<std::vector<at::Tensor>()>> finish;  // in the order of their then()
  bool waited = false;

  // wait(), a future and what a then() made come here: the first computes, for all of them.
  const std::vector<at::Tensor>& complete() {
    const std::scoped_lock lock(mutex);
    for (const auto& each : std::exchange(finish, {})) start.outputs = each();
    return start.outputs;
  }

  std::mutex mutex;
};

namespace {

const char* advice_for(const std::string& cause, bool message) {
  const auto has = [&cause](const char* part) { return cause.find(part) != std::string::npos; };
  if (has("Connection closed") || has("Connection reset") || has("Broken pipe")) {
    return "a peer has ended: look at the rank that failed first";
  }
  if ((has("Timed out") || has("timeout")) && message) {
    return "the other rank hangs, or calls nothing that fits: compare ranks, order and tags";
  }
  if (has("Timed out") || has("timeout")) {
    return "a peer hangs or calls something else: CPPRUN_DISTRIBUTED_DEBUG=DETAIL tells which";
  }
  return "the group cannot be used any more";
}

}  // namespace

Work::Work(c10::intrusive_ptr<c10d::Work> native, Start start) : parts_(std::make_shared<Parts>()) {
  parts_->native = std::move(native);
  parts_->start = std::move(start);
}

const std::vector<at::Tensor>& Work::wait() {
  Parts& parts = *parts_;
  if (parts.waited) return parts.start.outputs;
  try {
    parts.start.timeout ? parts.native->wait(*parts.start.timeout) : parts.native->wait();
  } catch (const std::exception& error) {
    const std::string words = error.what();
    const std::string cause = words.substr(0, words.find('\n'));
    throw DistributedError(fmt::format("{} failed: {} ({})", parts.start.name, cause,
                                       advice_for(cause, parts.start.timeout.has_value())));
  }
  parts.waited = true;
  return parts.complete();
}

bool Work::is_completed() const {
  return parts_->waited || parts_->native->isCompleted();
}

int Work::source_rank() const {
  return parts_->native->sourceRank();
}

Work Work::then(std::function<std::vector<at::Tensor>()> finish) const {
  Work next(parts_->native, parts_->start);
  next.parts_->finish = {[before = parts_] { return before->complete(); }, std::move(finish)};
  return next;
}

c10::intrusive_ptr<c10::ivalue::Future> Work::future() const {
  return parts_->native->getFuture()->then(
      [parts = parts_](c10::ivalue::Future& done) {
        // A failure is passed on by asking for the value.
        static_cast<void>(done.value());
        return c10::IValue(parts->complete());
      },
      c10::ListType::ofTensors());
}

}  // namespace cpprun
