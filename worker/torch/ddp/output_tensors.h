// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Finds the tensors in whatever a module's forward returns: a tensor, and vectors, pairs and tuples
// of findable things. For an output type of your own, declare in its namespace
//   void visit_tensors(MyOutput& output, cpprun::OutputTensors& found);
// that calls visit_tensors on its members.

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

// All are declared before any is defined, so that they find each other in any nesting.
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
