// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Finds the tensors in the result of a module's forward: a tensor, or vectors, pairs and tuples of
// such results. For an output type of your own, declare in its namespace
//   void visit_tensors(MyOutput& output, cpprun::OutputTensors& found);
// and call visit_tensors on its members there.

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>
#include <vector>

namespace cpprun {

struct OutputTensors {
  std::vector<at::Tensor*> places;
};

inline void visit_tensors(at::Tensor& tensor, OutputTensors& found) {
  found.places.push_back(&tensor);
}

// All are declared before they are defined, so that any nesting works.
template <class Element>
void visit_tensors(std::vector<Element>& elements, OutputTensors& found);
template <class First, class Second>
void visit_tensors(std::pair<First, Second>& both, OutputTensors& found);
template <class... Elements>
void visit_tensors(std::tuple<Elements...>& elements, OutputTensors& found);

template <class Element>
void visit_tensors(std::vector<Element>& elements, OutputTensors& found) {
  for (Element& element : elements) visit_tensors(element, found);
}

template <class First, class Second>
void visit_tensors(std::pair<First, Second>& both, OutputTensors& found) {
  visit_tensors(both.first, found);
  visit_tensors(both.second, found);
}

template <class... Elements>
void visit_tensors(std::tuple<Elements...>& elements, OutputTensors& found) {
  std::apply([&found](auto&... each) { (visit_tensors(each, found), ...); }, elements);
}

}  // namespace cpprun
