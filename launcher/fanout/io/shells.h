// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Lets an io_context drive a Branch: opens the remote shells that it wants, says its messages
// through them, and tells it what comes back.

#include <asio/io_context.hpp>
#include <functional>
#include <memory>

#include "launcher/fanout/bootstrap.h"
#include "launcher/fanout/branch.h"
#include "launcher/fanout/message.h"
#include "proto/environment.h"

namespace cpprun::io {

class Shells {
 public:
  // `pass` gets what comes up from all hosts below; never from within a call of ours.
  Shells(asio::io_context& context, Environment environment, fanout::JobTerms job,
         fanout::OwnBinary own, std::function<void(const fanout::Up&)> pass);
  ~Shells();
  Shells(const Shells&) = delete;
  Shells& operator=(const Shells&) = delete;

  void dial(std::vector<fanout::Member> members);
  void tell(const fanout::Down& message);
  // What the hosts say is left in the pipes while they are held.
  void hold(bool held);
  // No shell is open. `idle` is called when that becomes so.
  bool empty() const;
  void when_idle(std::function<void()> idle);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// This program, as the other side looks for it; with its hash where it is to be sent. The file may
// have been removed since it was started.
fanout::OwnBinary own_binary(bool ship, const std::string& program = "cpprun");

}  // namespace cpprun::io
