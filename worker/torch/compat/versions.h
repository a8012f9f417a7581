// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// What differs between LibTorch's versions. Only this directory adapts to versions, by what
// compiles and not by version numbers. The functions are templates, because only then is a branch
// with missing names not compiled.

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace cpprun::compat {

// Operations whose names differ.

template <class Group>
auto all_gather_single(Group& group, at::Tensor& output, at::Tensor& input) {
  if constexpr (requires { group.all_gather_single(output, input); }) {
    return group.all_gather_single(output, input);
  } else {
    return group._allgather_base(output, input);
  }
}

template <class Group, class Options>
auto reduce_scatter_single(Group& group, at::Tensor& output, at::Tensor& input,
                           const Options& options) {
  if constexpr (requires { group.reduce_scatter_single(output, input, options); }) {
    return group.reduce_scatter_single(output, input, options);
  } else {
    return group._reduce_scatter_base(output, input, options);
  }
}

using Splits = std::vector<std::int64_t>;

template <class Group>
auto all_to_all_single(Group& group, at::Tensor& output, at::Tensor& input, Splits output_splits,
                       Splits input_splits) {
  if constexpr (requires { group.all_to_all_single(output, input, output_splits, input_splits); }) {
    return group.all_to_all_single(output, input, output_splits, input_splits);
  } else {
    return group.alltoall_base(output, input, output_splits, input_splits);
  }
}

// Whether the group has a backend for tensors on this type of device.
template <class Group>
bool carries(const Group& group, c10::DeviceType type) {
  const auto devices = group.getDeviceTypes();
  return std::any_of(devices.begin(), devices.end(),
                     [type](const c10::Device& device) { return device.type() == type; });
}

// Destroys the communicators before CUDA shuts down; older versions do that in their destructors.
template <class Group>
void shutdown(Group& group) {
  if constexpr (requires { group.shutdown(); }) group.shutdown();
}

// A client of a store of its own. LibTorch 2.6 cannot create a second one; there it is shared.
template <class Store>
c10::intrusive_ptr<Store> own_client(const c10::intrusive_ptr<Store>& store) {
  if constexpr (requires { store->clone(); }) {
    return store->clone();
  } else {
    return store;
  }
}

// Undefined in LibTorch 2.6, which has no such type.
template <class Type>
constexpr Type float8_e8m0fnu() {
  if constexpr (requires { Type::Float8_e8m0fnu; }) {
    return Type::Float8_e8m0fnu;
  } else {
    return Type::Undefined;
  }
}

// The options of a gloo backend. `interfaces`: the value of GLOO_SOCKET_IFNAME, which LibTorch 2.6
// reads only in its Python binding, later versions in C++ too.
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

// The constructor of c10d::Reducer grew over LibTorch's versions (2.6: ten arguments, 2.13:
// thirteen).
struct ReducerArguments {
  std::vector<at::Tensor> parameters;
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> limits;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::vector<bool> sparse;
  std::int64_t cap = 0;
  bool find_unused = false;
  bool as_view = false;
  std::unordered_map<std::size_t, std::string> names;
  std::int64_t first_cap = 0;
};

template <class Reducer>
std::shared_ptr<Reducer> make_reducer(const ReducerArguments& a) {
  using Tensors = std::vector<at::Tensor>;
  using Buckets = std::vector<std::vector<std::size_t>>;
  using Group = c10::intrusive_ptr<c10d::ProcessGroup>;
  using Names = std::unordered_map<std::size_t, std::string>;
  using Flags = std::vector<bool>;
  using Caps = std::vector<std::int64_t>;
  using Limits = std::vector<std::size_t>;
  using Int = std::int64_t;
  if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, Group, Flags, Int, bool, bool,
                                        Names, Int, bool, bool, Caps, bool>) {
    return std::make_shared<Reducer>(a.parameters, a.buckets, a.group, a.sparse, a.cap,
                                     a.find_unused, a.as_view, a.names, a.first_cap, false, false,
                                     Caps{}, false);
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, Group, Flags, Int, bool,
                                               bool, Names, Int, bool, bool, Caps>) {
    return std::make_shared<Reducer>(a.parameters, a.buckets, a.group, a.sparse, a.cap,
                                     a.find_unused, a.as_view, a.names, a.first_cap, false, false,
                                     Caps{});
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, Group, Flags, Int, bool,
                                               bool, Names, Int, bool, bool>) {
    return std::make_shared<Reducer>(a.parameters, a.buckets, a.group, a.sparse, a.cap,
                                     a.find_unused, a.as_view, a.names, a.first_cap, false, false);
  } else {
    static_assert(std::is_constructible_v<Reducer, Tensors, Buckets, Limits, Group, Flags, Int,
                                          bool, bool, Names, Int>,
                  "unsupported version of LibTorch: unknown constructor of c10d::Reducer");
    return std::make_shared<Reducer>(a.parameters, a.buckets, a.limits, a.group, a.sparse, a.cap,
                                     a.find_unused, a.as_view, a.names, a.first_cap);
  }
}

}  // namespace cpprun::compat
