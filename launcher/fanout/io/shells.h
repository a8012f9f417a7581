// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Drives HostShells on an io_context: opens the remote shells it requests, sends its messages
// through them, and feeds it what comes back.

#include <asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/fan_out.h"
#include "launcher/fanout/message.h"
#include "proto/environment.h"

namespace cpprun::io {

class Shells {
 public:
  // `shell` is the remote shell's command. `pass` receives messages from all hosts; never from
  // within a call to this object.
  Shells(asio::io_context& context, Environment environment, std::vector<std::string> shell,
         fanout::JobTerms job, fanout::OwnBinary own,
         std::function<void(const fanout::Said&)> pass);
  ~Shells();
  Shells(const Shells&) = delete;
  Shells& operator=(const Shells&) = delete;

  void dial(const fanout::Dial& dial);
  void tell(const fanout::Tell& tell);
  // No shell is open. `idle` is called when that becomes true.
  bool empty() const;
  void when_idle(std::function<void()> idle);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// Why this process cannot have the open files for that many shells; nullopt if it can.
std::optional<std::string> lacks_open_files(std::size_t hosts);

// Describes this program for the other side, with its hash if it is to be shipped. Works even if
// the file was removed after the start.
fanout::OwnBinary own_binary(bool ship, const std::string& program = "cpprun");

}  // namespace cpprun::io
