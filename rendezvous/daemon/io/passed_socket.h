// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Takes the socket that a service manager has passed on, if it is one to serve on.

#include "proto/result.h"
#include "rendezvous/daemon/activation.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// Looks at descriptors 3 and following, so: before anything else is opened. Nothing where nothing
// was passed. From here on it is nobody's whom we start, and never blocks.
Result<FileDescriptor> take_passed_socket(const Activation& activation);

}  // namespace cpprun
