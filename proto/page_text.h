// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Text on its way into a manual page or into a script that a shell reads.

#include <string>
#include <string_view>

namespace cpprun {

// Words of a page: nothing in them is a command of man(7), nor a hyphen where a dash was typed.
std::string roff_text(std::string_view text);

// One word of a shell, between single quotes.
std::string shell_word(std::string_view text);

// What zsh's _arguments and _describe take for a text: none of its brackets and colons ends it.
std::string zsh_text(std::string_view text);

}  // namespace cpprun
