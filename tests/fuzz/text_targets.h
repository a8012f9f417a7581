// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text that people type, and output of workers (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void rendezvous_conf(std::string_view bytes);
void config_file(std::string_view bytes);
void endpoint_text(std::string_view bytes);
void worker_output(std::string_view bytes);

}  // namespace cpprun::fuzz
