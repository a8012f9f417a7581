// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What the agent of one host is started with, from the terms that all have in common.

#include <string>
#include <string_view>
#include <vector>

#include "launcher/fanout/message.h"
#include "proto/environment.h"
#include "proto/result.h"

namespace cpprun::fanout {

// Its command line, without the program's own name.
std::vector<std::string> agent_words(const JobTerms& job, const Member& self, const Begin& begin);

// Its environment: the host's own without what it would say of another job, and what the terms say
// laid over it. The console's PATH comes first, the host's behind it.
Environment agent_environment(const JobTerms& job, Environment own);

// What a console passes on of its environment: what trainers, Python and the libraries below them
// read and what is true on every host. Devices, addresses and whatever may be a password stay.
// `exported` are --export's words, "NAME" or "NAME=VALUE" with commas between them; a name that is
// not set here is an error.
Result<Environment> passed_environment(const Environment& own, std::string_view exported);

// The words that start `sh` on a host: {host} replaced, or the host behind them where it is in
// none.
std::vector<std::string> shell_words(const std::vector<std::string>& shell,
                                     const std::string& host);

}  // namespace cpprun::fanout
