// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/pth_file.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue_inl.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/conj.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <fstream>

#include "tests/worker/temporary_directory.h"
#include "worker/torch/files/pth_values.h"

namespace pth_file_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;

// state_files_test.py tests that Python reads what is written here, and vice versa.

namespace {

std::string refusal(const std::string& path) {
  try {
    static_cast<void>(load_pth(path));
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a state is restored from its file") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["weight"] = at::arange(6, at::kFloat).view({2, 3}).t();
  state.tensors["half"] = at::full({2}, 1.5, at::kBFloat16);
  save_pth(directory.file("a.pth"), state);
  const StateDict loaded = state_dict_from(load_pth(directory.file("a.pth")));
  CHECK(loaded.tensors.size() == 2);
  CHECK(loaded.tensors.at("weight").equal(state.tensors.at("weight")));
  CHECK(loaded.tensors.at("half").equal(state.tensors.at("half")));
  CHECK(directory.entries() == 1);
}

TEST_CASE("nested values are joined by dots, numbers and texts among them") {
  c10::impl::GenericDict inner(c10::AnyType::get(), c10::AnyType::get());
  inner.insert("lr", 0.1);
  inner.insert(std::int64_t{0}, at::full({1}, 4.0));
  c10::impl::GenericDict outer(c10::AnyType::get(), c10::AnyType::get());
  outer.insert("optimizer", inner);
  outer.insert("epoch", std::int64_t{3});
  outer.insert("betas", c10::ivalue::Tuple::create(0.9, 0.99));
  const StateDict state = state_dict_from(outer);
  CHECK(state.real("optimizer.lr") == 0.1);
  CHECK(state.integer("epoch") == 3);
  CHECK(state.real("betas.1") == 0.99);
  CHECK(state.tensors.contains("optimizer.0"));
}

TEST_CASE("a small view of a large tensor is a small file, and one tensor twice is saved once") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["view"] = at::zeros({1'000'000}).narrow(0, 5, 10);
  const at::Tensor tied = at::zeros({10'000});
  state.tensors["first"] = tied;
  state.tensors["second"] = tied;
  save_pth(directory.file("a.pth"), state);
  CHECK(directory.read("a.pth").size() < 60'000);
  const StateDict loaded = state_dict_from(load_pth(directory.file("a.pth")));
  loaded.tensors.at("first").fill_(1);
  CHECK(loaded.tensors.at("second")[7].item<float>() == 1);
}

TEST_CASE("every type that torch.load opens is restored, and others are rejected") {
  const TemporaryDirectory directory;
  const at::Tensor bytes = at::arange(16, at::kByte);
  for (const PthType& each : pth_types()) {
    INFO(each.dtype);
    StateDict state;
    state.tensors["values"] = each.type == at::kBool ? bytes.gt(7) : bytes.view(each.type);
    save_pth(directory.file("a.pth"), state);
    const StateDict loaded = state_dict_from(load_pth(directory.file("a.pth")));
    const at::Tensor& values = loaded.tensors.at("values");
    CHECK((values.scalar_type() == each.type));
    CHECK(values.view(at::kByte).equal(state.tensors["values"].view(at::kByte)));
  }
  StateDict strange;
  strange.tensors["values"] = bytes.view(at::kBits8);
  CHECK_THROWS_WITH_AS(save_pth(directory.file("b.pth"), strange),
                       ("cannot write \"" + directory.file("b.pth") +
                        "\": the tensor \"values\" has the type Bits8, which torch.load does not "
                        "support")
                           .c_str(),
                       FileError);
}

TEST_CASE("a file that torch.save did not write is rejected with its name") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a.pth");
  CHECK(refusal(path) == "cannot read \"" + path + "\": No such file or directory");
  std::ofstream(path) << "no zip at all";
  CHECK(
      refusal(path).starts_with("\"" + path + "\": not a torch.save file of PyTorch 1.6 or later"));
}

TEST_CASE("a truncated file is rejected") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["weight"] = at::zeros({1000});
  save_pth(directory.file("a.pth"), state);
  const std::string bytes = directory.read("a.pth");
  for (const std::size_t size : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    std::ofstream(directory.file("b.pth"), std::ios::binary) << bytes.substr(0, size);
    CHECK(refusal(directory.file("b.pth")).find("b.pth\": not a torch.save file") !=
          std::string::npos);
  }
}

TEST_CASE("a value that a file of tensors cannot hold is rejected, and leaves no file") {
  const TemporaryDirectory directory;
  CHECK_THROWS_AS(save_pth(directory.file("a.pth"), c10::IValue(c10::Device(c10::kCPU))),
                  FileError);
  c10::impl::GenericList list(c10::AnyType::get());
  list.push_back(at::zeros({1}));
  list.push_back(at::zeros({2}).to_sparse());
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("layers", list);
  CHECK_THROWS_WITH_AS(save_pth(directory.file("a.pth"), dict),
                       ("cannot write \"" + directory.file("a.pth") +
                        "\": the tensor \"layers.1\" is undefined, sparse or quantized")
                           .c_str(),
                       FileError);
  CHECK(directory.entries() == 0);
}

TEST_CASE("a transposed or retyped view of a tensor that is saved too keeps its own values") {
  const TemporaryDirectory directory;
  StateDict state;
  const at::Tensor x = at::arange(4, at::kFloat).view({2, 2});
  state.tensors["a"] = x;
  state.tensors["a_t"] = x.t();
  state.tensors["bits"] = x.view(at::kInt);
  state.tensors["again"] = x;
  save_pth(directory.file("a.pth"), state);
  const StateDict loaded = state_dict_from(load_pth(directory.file("a.pth")));
  for (const auto& [name, tensor] : state.tensors) {
    CAPTURE(name);
    CHECK((loaded.tensors.at(name).scalar_type() == tensor.scalar_type()));
    CHECK(loaded.tensors.at(name).equal(tensor));
  }
}

TEST_CASE("a conjugated view is saved with its visible values") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["z"] = at::complex(at::full({2}, 1.0), at::full({2}, 2.0)).conj();
  save_pth(directory.file("z.pth"), state);
  CHECK(
      state_dict_from(load_pth(directory.file("z.pth"))).tensors.at("z").equal(state.tensors["z"]));
}

TEST_CASE("dicts that reference each other repeatedly are rejected before memory runs out") {
  c10::impl::GenericDict dict(c10::AnyType::get(), c10::AnyType::get());
  dict.insert("a", std::int64_t{1});
  for (int level = 0; level < 40; ++level) {
    c10::impl::GenericDict above(c10::AnyType::get(), c10::AnyType::get());
    above.insert("x", dict);
    above.insert("y", dict);
    dict = above;
  }
  CHECK_THROWS_AS(static_cast<void>(state_dict_from(dict)), FileError);
}

}  // namespace pth_file_test
