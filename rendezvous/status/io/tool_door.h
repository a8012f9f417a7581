// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Unix socket at which tools of this machine ask, while this program runs. The kernel says
// whose each visitor is. It is opened a while after the start, when the workers run; a disk that
// hangs holds a process beside ours up, and nothing else. Nobody waits here but for visitors.

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/clock.h"
#include "rendezvous/io/file_descriptor.h"
#include "rendezvous/io/side_processes.h"
#include "rendezvous/status/door_places.h"

namespace cpprun {

struct DoorPlan {
  std::vector<DoorFolder> folders;  // the first that can be had is taken
  Duration after{};                 // how long it is not needed yet
  Duration patience{};              // with the disk, at the end
};

// For the log: nobody finds a socket for tools here.
std::string no_door_text(const std::string& why);

class ToolDoor {
 public:
  struct Callbacks {
    std::function<void(FileDescriptor socket, std::uint32_t user)> visitor;
    // Nobody can ask there, and why.
    std::function<void(std::string)> trouble;
    // It is there; for whoever removes it where this program cannot.
    std::function<void(const std::string& path)> opened = {};
  };

  // `side` is there for as long as it is.
  ToolDoor(asio::io_context& context, SideProcesses& side, DoorPlan plan, Callbacks callbacks);
  // Removes it.
  ~ToolDoor();
  ToolDoor(const ToolDoor&) = delete;
  ToolDoor& operator=(const ToolDoor&) = delete;

  // Somebody else removes it.
  void hand_over() { path_.clear(); }
  // Where it is; empty: it is not open.
  const std::string& path() const { return path_; }

 private:
  void open();
  void open_aside();
  void hear();
  void hear_last();
  void opened(const std::string& answer);
  void listen();
  bool let_in();
  void rest();

  SideProcesses& side_;
  const DoorPlan plan_;
  const Callbacks callbacks_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor news_;  // of the process that opens it
  asio::posix::stream_descriptor visitors_;
  std::string answer_;
  std::string path_;
  int side_pid_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
