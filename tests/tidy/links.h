// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Where the links of the pages lead.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// A link from one page to another, relative to the page it stands on, leads to a page that is
// there.
std::vector<Violation> check_links(const std::vector<Source>& tree);

}  // namespace cpprun::tidy
