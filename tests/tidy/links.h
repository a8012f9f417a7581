// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the links of the pages lead, and the paths that pages and scripts name.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// A link from one page to another, relative to the page it stands on, leads to a page that is
// there.
std::vector<Violation> check_links(const Tree& tree);

// A file of the house that a script or a page names by its path, `worker/run.h`, is there. Pages
// that tell of the past (CHANGELOG.md, docs/decisions.md) may name what went.
std::vector<Violation> check_named_files(const Tree& tree);

}  // namespace cpprun::tidy
