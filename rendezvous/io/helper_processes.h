// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Child processes for calls that may never return. Whatever reads from or writes to a hung disk
// sits in the kernel, where not even KILL ends it; a thread stuck there keeps its whole process
// from ending. A child can be left behind: it hears no signal but KILL, holds nothing of ours open
// except what it was given, and still writes what it was asked to when the disk comes back.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clock.h"
#include "proto/result.h"

namespace cpprun {

// All that such a process says until it ends, through that pipe; nothing where its end does not
// come in time, or, where each word has that patience, where nothing comes for so long.
std::optional<std::string> read_until_end(int descriptor, Duration patience, bool is_of_each);

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
  std::optional<std::string> ask(const std::function<std::string()>& look, Duration patience);

  // The same of what takes longer than that: nothing if it says nothing for so long. What it says
  // on its way comes first, and is a part of the answer.
  using Say = std::function<void(std::string_view)>;
  std::optional<std::string> ask_patiently(const std::function<void(const Say&)>& look,
                                           Duration patience);

  // Sends KILL to a child that does not come back; one that hangs stays in the list. Sends none if
  // it was reaped meanwhile: its number may be another's.
  void end(int pid) const;

  // Those that were started and have not been reaped.
  const std::vector<int>& pids() const { return pids_; }
  // Somebody else has reaped it.
  void reaped(int pid) { std::erase(pids_, pid); }

 private:
  // `is_of_each`: each word has that patience, and not all of them together.
  std::optional<std::string> hear(const std::function<void(const Say&)>& look, Duration patience,
                                  bool is_of_each);
  void reap_ended();

  std::vector<int> pids_;
};

}  // namespace cpprun
