// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Which room may include from which: the rooms of the house, and those within a room.

#include <optional>
#include <string_view>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// proto ← rendezvous ← launcher, and worker sees only proto; tests see everything. Within a room
// the arrows point downwards only, from one layer to those below it.
std::optional<Violation> judge_layers(const Source& source, int line, std::string_view included);

// Every directory of the product has a layer, and every layer a directory: one that is renamed does
// not slip out of the rule above.
std::vector<Violation> check_layers(const Tree& tree);

}  // namespace cpprun::tidy
