// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Secrets out of a file that nobody else can read or replace. Every refusal names the file and the
// cure, and never what stands in it.

#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "proto/secure/secret.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The file has to be there, and to be a file: of this user or of root, closed to everybody else,
// in a folder in which not everybody may put another in its place. It may be a symbolic link, where
// nobody else may change any link or any directory on the way.
Result<Secrets> read_secret_file(const std::string& path);

// The same of the file `name` in a folder that the caller has opened and judged. `path` is what it
// is called in refusals.
Result<Secrets> read_secret_in(const FileDescriptor& folder, const std::string& name,
                               const std::string& path);

// Whether there is something, be it wrong, or a folder into which this user cannot look.
bool may_have_secret(const std::string& path);

// Why nobody can tell whether the user has a secret, where find_secrets then finds none; empty
// where that is known. Not a reason to end: a container's user is often not its HOME's.
std::string secret_out_of_reach(const std::string& named, const Environment& environment);

// Those that a flag or the variable names, or the user's own (rendezvous/secret_place.h); "-" is
// standard input, to its end. None where nothing was named and the user has none.
Result<Secrets> find_secrets(const std::string& named, const Environment& environment);

}  // namespace cpprun
