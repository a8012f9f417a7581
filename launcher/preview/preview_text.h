// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A preview for people: the job, a table of its workers, what they are given, and what is not known
// yet.

#include <string>

#include "launcher/preview/preview.h"

namespace cpprun {

std::string preview_text(const Preview& preview);

}  // namespace cpprun
