// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The constructor of c10d::Reducer grew over LibTorch's versions (2.6: ten arguments, 2.13:
// thirteen).

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace cpprun::compat {

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

// A template, so that branches whose constructor does not exist are not compiled.
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
                  "this version of LibTorch has a c10d::Reducer that cpprun does not know yet");
    return std::make_shared<Reducer>(a.parameters, a.buckets, a.limits, a.group, a.sparse, a.cap,
                                     a.find_unused, a.as_view, a.names, a.first_cap);
  }
}

}  // namespace cpprun::compat
