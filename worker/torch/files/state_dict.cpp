// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/state_dict.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "proto/text.h"

namespace cpprun {
namespace {

template <class Number>
Number parse(const StateDict& state, const std::string& name, std::string_view kind) {
  const auto found = state.texts.find(name);
  if (found == state.texts.end()) throw StateError(fmt::format("\"{}\" is missing", name));
  const auto value = exact_number<Number>(found->second);
  if (!value) {
    throw StateError(fmt::format("\"{}\" is \"{}\", expected {}", name, found->second, kind));
  }
  return *value;
}

// A different model differs in hundreds of names; the first few identify it.
constexpr std::size_t differences_named_max = 5;

std::string listed(const std::vector<std::string>& differences) {
  const std::size_t named = std::min(differences.size(), differences_named_max);
  std::string text =
      fmt::format("{}", fmt::join(differences.begin(),
                                  differences.begin() + static_cast<std::ptrdiff_t>(named), "; "));
  if (named < differences.size()) text += fmt::format("; {} more", differences.size() - named);
  return text;
}

}  // namespace

void StateDict::set(const std::string& name, std::int64_t value) {
  texts[name] = fmt::format("{}", value);
}

// The shortest digits that read back as the same number.
void StateDict::set(const std::string& name, double value) {
  texts[name] = fmt::format("{}", value);
}

std::int64_t StateDict::integer(const std::string& name) const {
  return parse<std::int64_t>(*this, name, "a whole number");
}

double StateDict::real(const std::string& name) const {
  return parse<double>(*this, name, "a number");
}

void StateDict::put(const std::string& prefix, const StateDict& part) {
  for (const auto& [name, tensor] : part.tensors) tensors[prefix + '.' + name] = tensor;
  for (const auto& [name, text] : part.texts) texts[prefix + '.' + name] = text;
}

StateDict StateDict::part(const std::string& prefix) const {
  const std::string start = prefix + '.';
  StateDict found;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(start)) found.tensors[name.substr(start.size())] = tensor;
  }
  for (const auto& [name, text] : texts) {
    if (name.starts_with(start)) found.texts[name.substr(start.size())] = text;
  }
  return found;
}

void copy_into(const TensorsByName& targets, const StateDict& state, const std::string& what) {
  std::vector<std::string> differences;
  std::set<std::string> known;
  for (const auto& [name, target] : targets) {
    known.insert(name);
    const auto found = state.tensors.find(name);
    if (found == state.tensors.end()) {
      differences.push_back(fmt::format("{} is missing", name));
    } else if (found->second.sizes() != target.sizes()) {
      differences.push_back(fmt::format("{} is [{}], expected [{}]", name,
                                        fmt::join(found->second.sizes().vec(), ", "),
                                        fmt::join(target.sizes().vec(), ", ")));
    }
  }
  for (const auto& [name, tensor] : state.tensors) {
    if (!known.contains(name)) differences.push_back(fmt::format("{} is unknown", name));
  }
  if (!differences.empty()) {
    throw StateError(
        fmt::format("{} does not match the saved state: {}", what, listed(differences)));
  }
  const at::NoGradGuard no_grad;
  // A const tensor is only a handle: its values may be written.
  for (const auto& [name, target] : targets) target.copy_(state.tensors.at(name));
}

}  // namespace cpprun
