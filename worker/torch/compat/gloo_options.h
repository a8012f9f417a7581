// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// LibTorch 2.6 reads GLOO_SOCKET_IFNAME only in its Python binding, later versions in C++ too.

#include <chrono>
#include <cstddef>
#include <string>

namespace cpprun::compat {

// `interfaces`: the value of GLOO_SOCKET_IFNAME, for versions that do not read it.
template <class Gloo>
auto gloo_options(std::chrono::milliseconds timeout, const std::string& interfaces) {
  if constexpr (requires { Gloo::Options::create_default(timeout); }) {
    return Gloo::Options::create_default(timeout);
  } else {
    auto options = Gloo::Options::create(timeout);
    std::size_t at = 0;
    while (at < interfaces.size()) {
      const std::size_t comma = std::min(interfaces.find(',', at), interfaces.size());
      if (comma > at) {
        const std::string name = interfaces.substr(at, comma - at);
        options->devices.push_back(Gloo::createDeviceForInterface(name));
      }
      at = comma + 1;
    }
    if (options->devices.empty()) options->devices.push_back(Gloo::createDefaultDevice());
    options->threads = static_cast<int>(options->devices.size() * 2);
    return options;
  }
}

}  // namespace cpprun::compat
