// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Who may include what: the directions between the rooms, and the libraries that have one home.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// proto ← rendezvous ← launcher, worker sees only proto, a root never sees its io/.
std::vector<Violation> check_directions(const Source& source);

// Asio only under io/, CLI11 in the simulator and the examples, nlohmann in codecs, LibTorch in the
// worker; and no system header that is an effect outside io/.
std::vector<Violation> check_libraries(const Source& source);

// A source includes its own header first; a header says `#pragma once` before anything else.
std::vector<Violation> check_own_header(const Source& source, bool has_header);

}  // namespace cpprun::tidy
