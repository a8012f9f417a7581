// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The log files of the attempt that runs, by what a worker's plan says of them, and those of
// earlier ones that are still being written.

#include <asio/io_context.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/output/io/log_writer.h"
#include "launcher/plan/plan.h"

namespace cpprun::io {

// Of one stream of one worker.
struct StreamFiles {
  int error_number = 0;  // one of them could not be opened
  FileDescriptor own;    // which the worker's stream itself becomes
  std::shared_ptr<LogWriter> writer;
  std::optional<std::size_t> file;  // by their numbers there
  std::optional<std::size_t> duplicates;
};

class AttemptFiles {
 public:
  AttemptFiles(asio::io_context& context, SideProcesses& side, LogWriter::Callbacks callbacks)
      : context_(context), side_(side), callbacks_(std::move(callbacks)) {}

  // Those of the attempt before are complete. The disk has that long.
  void open(const std::vector<WorkerSpec>& specs, Duration patience);
  StreamFiles find(const StreamPlan& plan);
  // No more words come.
  void finish();
  // After that: whether everything is in the files.
  bool all_written() const;
  // Where it is not; nobody waits for that any more.
  std::vector<std::string> give_up();

 private:
  void add(const StreamPlan& plan, std::vector<LogWriter::Order>& orders);

  asio::io_context& context_;
  SideProcesses& side_;
  LogWriter::Callbacks callbacks_;
  std::shared_ptr<LogWriter> writer_;          // where there are files at all
  std::map<std::string, std::size_t> orders_;  // its numbers, by path
  std::vector<std::shared_ptr<LogWriter>> finished_;
};

}  // namespace cpprun::io
