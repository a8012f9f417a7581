// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tells a service manager that this process is ready, or stops. Never waits: whoever does not
// listen, or not fast enough, is not told.

#include <string>
#include <string_view>

#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

class ServiceNotifier {
 public:
  // Nobody listens.
  ServiceNotifier() = default;

  // `address`: of notify_address(). Connects at once: behind a sandbox it no longer could.
  // What went wrong, as a clause; empty: nothing.
  std::string connect(const std::string& address);

  // The same; without a connection nothing is said, and nothing is wrong.
  std::string say(std::string_view message);

 private:
  FileDescriptor socket_;
};

}  // namespace cpprun
