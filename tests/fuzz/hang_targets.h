// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Evidence about a hang: what workers answer, and what agents send (targets.h).

#include <string_view>

namespace cpprun::fuzz {

void traceback(std::string_view bytes);
void flight_record(std::string_view bytes);
void py_spy(std::string_view bytes);
void python_memory(std::string_view bytes);
void observations(std::string_view bytes);
void hang_evidence(std::string_view bytes);

}  // namespace cpprun::fuzz
