// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund as a service: takes the socket that is passed on, tells the service manager, and enters
// the sandbox.

#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// Takes the socket that a service manager has passed on, if it is one to serve on.
// Looks at descriptors 3 and following, so: before anything else is opened. Nothing where nothing
// was passed. From here on it is nobody's whom we start, and never blocks.
Result<FileDescriptor> take_passed_socket(const Activation& activation);

// Tells a service manager that this process is ready, or stops. Never waits: whoever does not
// listen, or not fast enough, is not told.
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

// Gives up, for this process and all that it starts from here on, what it does not need. There is
// no way back. Where the kernel refuses a part of it, the rest is in force.
// For a process with one thread: Landlock's rules are a thread's.
SandboxInForce enter_sandbox(const SandboxWants& wants);

}  // namespace cpprun
