// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The page for people: one file that asks nobody but us, built into the program (page.html).

#include <string>
#include <string_view>

#include "proto/http/session.h"

namespace cpprun {

// The page as it lies in page.html, and which code and styles of it a browser may obey: nothing but
// those whose hashes stand there. Written by cmake/embed_page.cmake.
extern const std::string_view page_html;
extern const std::string_view page_policy;

http::Response status_page();

}  // namespace cpprun
