// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Keeps the logs of stores in the folder of --state, beside the records of their jobs. A log that
// has become long begins anew, with an image; and so does one that the disk did not take, when it
// takes something again.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "rendezvous/coordinator/io/store_logs.h"
#include "rendezvous/daemon/io/state_folder.h"

namespace cpprun {

class LogFolder : public LogKeeper {
 public:
  struct Callbacks {
    // What nodes are told from now on waits for written() of that number.
    std::function<void(std::uint64_t ticket)> wait_for;
    std::function<void(std::uint64_t through)> written;
    // An image of that job's store is wanted.
    std::function<void(const std::string& job)> renew;
  };
  LogFolder(StateFolder& folder, Callbacks callbacks);

  // What a predecessor has left of that job, which is gone on with.
  void adopt(const std::string& job, const StateFolder::FoundLog& found);

  void begin_log(const std::string& job, RoundNumber round) override;
  void add_log(const std::string& job, std::string_view bytes) override;
  void log_is_whole(const std::string& job) override;
  bool go_on_log(const std::string& job) override;
  void end_log(const std::string& job) override;

 private:
  struct Log {
    std::uint64_t generation = 0;
    std::uint64_t bytes = 0;        // of that generation
    std::uint64_t image_bytes = 0;  // of them, until it was whole
    bool is_whole = false;
    bool is_broken = false;
    bool is_renewed = false;  // another one was asked for
  };
  void put(LogOrder order, const std::string& job, Log& log, std::string_view bytes);
  void broke(const std::string& job, const std::string& why);
  void try_again();

  StateFolder& folder_;
  const Callbacks callbacks_;
  std::map<std::string, Log> logs_;
  std::map<std::string, StateFolder::FoundLog> found_;
};

}  // namespace cpprun
