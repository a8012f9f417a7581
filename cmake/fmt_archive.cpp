// SPDX-License-Identifier: BSD-3-Clause
// {fmt} compiled once, into the programs. Distributions ship fmt's headers and a shared library
// but no archive, LibTorch ships only the headers of another version, and header-only fmt costs
// each translation unit three seconds. At run time, cpprun needs only the C library. So this file
// holds the library's out-of-line half: the implementation header, and the templates that its
// public headers declare extern.

#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
#if FMT_VERSION >= 120000
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
#endif
namespace detail {

#if FMT_VERSION < 120000
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;
#endif
template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double) noexcept;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref);
template FMT_API char decimal_point_impl(locale_ref);
template FMT_API void buffer<char>::append(const char*, const char*);
#if FMT_VERSION < 100000  // later releases compile it without being asked
template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
#endif

}  // namespace detail
FMT_END_NAMESPACE
