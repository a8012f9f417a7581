// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the links of the pages lead, and the paths that pages and scripts name.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// A link from one page to another, relative to the page it stands on, leads to a page that is
// there.
std::vector<Violation> check_links(const Tree& tree);

// A file of the house that a script, a page or one of these rules names by its path,
// `proto/text.h`, exists: a rule does not silently lose what was renamed. Pages about the past
// (CHANGELOG.md, docs/decisions.md) may name what is gone.
std::vector<Violation> check_named_files(const Tree& tree);

}  // namespace cpprun::tidy
