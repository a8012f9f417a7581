// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/output/io/attempt_files.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cpprun::io {

void AttemptFiles::open(const std::vector<WorkerSpec>& specs, Duration patience) {
  finish();
  std::vector<LogWriter::Order> orders;
  for (const auto& spec : specs) {
    for (const auto* plan : {&spec.out, &spec.err}) add(*plan, orders);
  }
  if (orders.empty()) return;
  writer_ = std::make_shared<LogWriter>(context_, side_, std::move(orders), patience, callbacks_);
}

// One for all streams that have the same: it is limited as one.
void AttemptFiles::add(const StreamPlan& plan, std::vector<LogWriter::Order>& orders) {
  const auto add_one = [&](const std::string& path, bool emptied, bool handed_over) {
    if (path.empty() || !orders_.try_emplace(path, orders.size()).second) return;
    orders.push_back({path, emptied, handed_over ? 0 : plan.file_bytes_max, handed_over});
  };
  add_one(plan.file, true, plan.target == StreamTarget::file);
  add_one(plan.duplicate_file, false, false);
}

StreamFiles AttemptFiles::find(const StreamPlan& plan) {
  StreamFiles files;
  files.writer = writer_;
  const auto find_one = [&](const std::string& path, std::optional<std::size_t>& order) {
    const auto found = orders_.find(path);
    if (path.empty() || found == orders_.end() || files.error_number != 0) return;
    order = found->second;
    auto& opened = writer_->opened()[*order];
    files.error_number = opened.error_number;
    if (opened.file) files.own = std::move(opened.file);
  };
  find_one(plan.file, files.file);
  find_one(plan.duplicate_file, files.duplicates);
  return files;
}

void AttemptFiles::finish() {
  std::erase_if(finished_, [](const auto& each) { return each->ended(); });
  orders_.clear();
  if (!writer_) return;
  writer_->end();
  finished_.push_back(std::exchange(writer_, nullptr));
}

bool AttemptFiles::all_written() const {
  return std::ranges::all_of(finished_, [](const auto& each) { return each->ended(); });
}

std::vector<std::string> AttemptFiles::give_up() {
  std::vector<std::string> places;
  for (const auto& each : std::exchange(finished_, {})) {
    if (!each->ended()) places.push_back(each->place());
  }
  return places;
}

}  // namespace cpprun::io
