// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A class is one header and one source.

#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// The methods of a class that room/x.h defines are in room/x.cpp (or room/io/x.cpp), as far as they
// are not in the header itself. tests/tidy/fragments.txt lists the sources that hold methods of a
// class of another file; it can only get shorter.
std::vector<Violation> check_methods(const Tree& tree);

}  // namespace cpprun::tidy
