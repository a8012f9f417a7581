// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Words that do not belong here, each with what to write instead.

#include <vector>

#include "tests/tidy/source.h"

namespace cpprun::tidy {

// Clocks, threads, sleeps and the console outside io/.
std::vector<Violation> check_effect_words(const Source& source);

// Whoever asks the process for its environment, but for `main` and the one file of a worker.
std::vector<Violation> check_environment_words(const Source& source);

// C++ that has a better replacement in this house, anywhere in the code; sleeps, in tests too.
std::vector<Violation> check_code_words(const Source& source);

// Words in prose and comments: promises without an entry, the places of one machine, vague nouns.
std::vector<Violation> check_prose_words(const Source& source);

// `cpprun::io` is what the io/ directories of launcher/ declare, all of it and nothing else.
std::vector<Violation> check_io_namespace(const Source& source);

// File names that name no noun.
std::vector<Violation> check_file_name(const Source& source);

}  // namespace cpprun::tidy
