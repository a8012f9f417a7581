// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Keeps the logs of stores in the folder of --state, beside the records of their jobs. A log that
// has become long begins anew, with an image, and is kept as it is until that is whole; one that
// the disk did not take begins anew when it takes something again.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
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
    // An image of that job's store is wanted: what there is of it is lost, or only long.
    std::function<void(const std::string& job)> renew;
    std::function<void(const std::string& job)> shorten;
  };
  LogFolder(StateFolder& folder, Callbacks callbacks);

  // What a predecessor has left of that job, which is gone on with.
  void adopt(const std::string& job, const StateFolder::FoundLog& found);
  // Its record is about to go: so does whatever lies there of its store.
  void forget(const std::string& job);

  void begin_log(const std::string& job, RoundNumber round) override;
  void add_image(const std::string& job, std::string_view bytes) override;
  bool has_room_for_image() override { return folder_.has_room_for_image(); }
  void log_is_whole(const std::string& job) override;
  void add_log(const std::string& job, std::string_view bytes) override;
  bool go_on_log(const std::string& job) override;
  void end_log(const std::string& job) override;

 private:
  struct File {
    std::uint64_t generation = 0;
    std::uint64_t bytes = 0;
  };
  struct Log {
    std::optional<File> whole;      // can be gone on with
    std::optional<File> begun;      // has a part of an image
    std::uint64_t image_bytes = 0;  // of the one that is whole, until it was
    bool is_broken = false;         // Invariant: then neither is there.
    bool is_renewed = false;        // another one was asked for, and has not begun
  };
  void put(LogOrder order, const std::string& job, File& file, std::string_view bytes);
  void add(const std::string& job, std::optional<File> Log::*to, std::string_view bytes);
  void broke(const std::string& job, const std::string& why);
  void try_again();

  StateFolder& folder_;
  const Callbacks callbacks_;
  std::map<std::string, Log> logs_;
  std::map<std::string, StateFolder::FoundLog> found_;
};

}  // namespace cpprun
