// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The Unix socket through which local tools connect to this program. The kernel reports the user of
// each client. It is opened some time after the start, when the workers are running. A hanging disk
// blocks only a helper process. The event loop never waits for the disk.

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
#include "rendezvous/io/helper_processes.h"
#include "rendezvous/status/door_places.h"

namespace cpprun {

struct DoorPlan {
  std::vector<DoorDirectory> directories;  // the first usable one is taken
  Duration after{};                        // delay before it is opened
  Duration timeout{};                      // timeout for the disk at shutdown
};

// For the log: tools will not find a socket here.
std::string no_door_text(const std::string& why);

class ControlSocket {
 public:
  struct Callbacks {
    std::function<void(FileDescriptor socket, std::uint32_t user)> client;
    // The socket is unavailable, with the reason.
    std::function<void(std::string)> trouble;
    // The socket exists at that path; lets another process remove it if this one cannot.
    std::function<void(const std::string& path)> opened = {};
  };

  // `side` has to outlive this object.
  ControlSocket(asio::io_context& context, HelperProcesses& side, DoorPlan plan,
                Callbacks callbacks);
  // Removes the socket.
  ~ControlSocket();
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  // Uses the socket at that path instead, which another program in this process has opened.
  void adopt(int socket, const std::string& path);
  // For such a program; -1: it is not open.
  int descriptor() { return path_.empty() ? -1 : visitors_.native_handle(); }
  // Another process is now responsible for removing it.
  void hand_over() { path_.clear(); }
  // Empty: it is not open.
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

  HelperProcesses& side_;
  const DoorPlan plan_;
  const Callbacks callbacks_;
  asio::steady_timer timer_;
  asio::posix::stream_descriptor news_;  // reads from the helper process that opens the socket
  asio::posix::stream_descriptor visitors_;
  std::string answer_;
  std::string path_;
  int side_pid_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace cpprun
