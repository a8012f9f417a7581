// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Reads secrets from a file that no other user can read or replace, into memory that is wiped.
// Every refusal names the file and includes a hint, and never quotes the content.

#include <memory>
#include <string>

#include "proto/environment.h"
#include "proto/result.h"
#include "proto/secure/secret.h"
#include "rendezvous/io/file_descriptor.h"

namespace cpprun {

// The path must be an existing regular file that belongs to this user or to root, is closed to all
// other users, and is in a directory in which they cannot replace it. It may be a symbolic link if
// no other user can change any link or directory on the way.
Result<Secrets> read_secret_file(const std::string& path);

// The same for the file `name` in a directory that the caller has opened and checked. `path` is its
// name in refusals.
Result<Secrets> read_secret_in(const FileDescriptor& directory, const std::string& name,
                               const std::string& path);

// Whether the path exists, valid or not, or is in a directory that this user cannot read.
bool may_have_secret(const std::string& path);

// Why it is unknown whether the user has a secret; find_secrets() then finds none. Empty if it is
// known. Not a reason to exit: a container's user often does not own its HOME.
std::string secret_out_of_reach(const std::string& named, const Environment& environment);

// Those that a flag or the variable names, or the user's own (proto/secure/secret.h); "-" is
// standard input, to its end. None where nothing was named and the user has none.
Result<Secrets> find_secrets(const std::string& named, const Environment& environment);

// Memory for one key: excluded from core files, cleared in forked children, and wiped when it is
// released. Throws std::bad_alloc if there is no memory.
std::shared_ptr<Key> make_key_memory();

}  // namespace cpprun
