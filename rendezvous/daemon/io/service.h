// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// cpprund as a service: takes over a passed socket, notifies the service manager, and enters the
// sandbox.

#include <string>
#include <string_view>

#include "proto/result.h"
#include "rendezvous/daemon/service.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// Takes over the socket that a service manager passed on, if it is suitable. Call this before
// anything else is opened, since it uses descriptor 3 and following. The result is empty if nothing
// was passed. The socket is non-blocking, and child processes do not inherit it.
Result<FileDescriptor> take_passed_socket(const Activation& activation);

// Tells a service manager that this process is ready or stopping. Never blocks: a manager that does
// not listen, or reads too slowly, misses the message.
class ServiceNotifier {
 public:
  // A notifier without a manager.
  ServiceNotifier() = default;

  // `address` comes from notify_address(). Connect before entering the sandbox, which no longer
  // allows it. Returns the error as a clause, or an empty string.
  std::string connect(const std::string& address);

  // Returns an error as connect() does. Does nothing if there is no connection.
  std::string say(std::string_view message);

 private:
  FileDescriptor socket_;
};

// Drops the privileges that are not needed, for this process and its future children. This cannot
// be undone. If the kernel rejects a part, the rest is in force. The process must have a single
// thread, since Landlock's rules apply to a thread.
SandboxInForce enter_sandbox(const SandboxWants& wants);

}  // namespace cpprun
