// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What a job with or without a secret means for this node.

#include <optional>
#include <string>
#include <string_view>

#include "launcher/config.h"
#include "proto/environment.h"

namespace cpprun {

// One node by itself, at a loopback port that nobody was told, meets nobody to prove anything to.
bool uses_secret(const Config& config);

// What --store=… means then; an answer, never `automatic`.
StoreWay settle_store(const Config& config, bool has_secret);

// Why the job cannot go without a secret, with what makes one; nothing where it can.
std::optional<std::string> missing_secret(const Config& config);

// What is said at the start where this node hosts the store of a job of several nodes, there is no
// secret, and nobody has wanted to hear nothing of it. `address` is one at which it is reached.
std::optional<std::string> open_port_note(const Config& config, std::string_view address);

// What cpprun itself was started with, for the workers: where the secret lies is none of their
// business, and they pass on what they get to programs of all kinds.
Environment without_secret_place(Environment environment);

}  // namespace cpprun
