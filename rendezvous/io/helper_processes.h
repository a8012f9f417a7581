// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Child processes for calls that may never return. Whatever reads from or writes to a hung disk
// sits in the kernel, where not even KILL ends it; a thread stuck there keeps its whole process
// from ending. A child can be left behind: it blocks every signal but KILL, holds nothing of ours
// open except what it was given, and still writes its data when the disk comes back.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

// Everything that such a process writes to the pipe until it ends. nullopt: the timeout has passed
// before the end, or, if `is_of_each`, since the last bytes.
std::optional<std::string> read_until_end(int descriptor, Duration timeout, bool is_of_each);

// For a question that may fail: the answer of the helper, and what it says. Without an answer the
// result is the error `no_answer`.
std::string answer_of(const Result<std::string>& result);
Result<std::string> result_of(const std::optional<std::string>& answer,
                              const std::string& no_answer);

class HelperProcesses {
 public:
  HelperProcesses() = default;
  HelperProcesses(const HelperProcesses&) = delete;
  HelperProcesses& operator=(const HelperProcesses&) = delete;

  // Runs `work` in a child that ends with it, and gives its pid. The descriptors in `kept` are open
  // there, under their numbers; its standard streams, unless they are kept, are /dev/null.
  Result<int> start(const std::vector<int>& kept, const std::function<void()>& work);

  // What `look` returns, run in a child; nothing if it does not answer in time. If no child can be
  // had, `look` runs here: better to wait than not to look.
  std::optional<std::string> ask(const std::function<std::string()>& look, Duration timeout);

  // The same of what takes longer than that: nothing if it says nothing for so long. What it says
  // on its way comes first, and is a part of the answer.
  using Say = std::function<void(std::string_view)>;
  std::optional<std::string> ask_within(const std::function<void(const Say&)>& look,
                                        Duration timeout);

  // Sends KILL to a child that does not return; a child that hangs stays in the list. Sends nothing
  // if it was reaped meanwhile: another process may have its pid.
  void end(int pid) const;

  // Those that were started and have not been reaped.
  const std::vector<int>& pids() const { return pids_; }
  // They were started by another program in this process.
  void adopt(std::vector<int> pids) { pids_ = std::move(pids); }
  // The child was reaped elsewhere.
  void reaped(int pid) { std::erase(pids_, pid); }

 private:
  // `is_of_each`: the timeout is for each message, not for all of them together.
  std::optional<std::string> hear(const std::function<void(const Say&)>& look, Duration timeout,
                                  bool is_of_each);
  void reap_ended();

  std::vector<int> pids_;
};

}  // namespace cpprun
