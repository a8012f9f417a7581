// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/files/safetensors_file.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <doctest/doctest.h>

#include <fstream>

#include "tests/worker/temporary_directory.h"

namespace safetensors_file_test {

using namespace cpprun;
using cpprun::testing::TemporaryDirectory;

namespace {

StateDict example() {
  StateDict state;
  state.tensors["flag"] = at::full({1}, true, at::kBool);
  state.tensors["half"] = at::full({3}, 1.5, at::kBFloat16);
  state.tensors["none"] = at::zeros({0, 4});
  state.tensors["scalar"] = at::full({}, 7, at::kLong);
  // A view that is neither dense nor at the start of its storage.
  state.tensors["view"] = at::arange(12, at::kFloat).view({3, 4}).t().narrow(0, 1, 2);
  state.texts["note"] = "a \"quoted\" word — ü";
  return state;
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string refusal(const std::string& path) {
  try {
    static_cast<void>(load_safetensors(path));
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("tensors of every kind are restored as they were saved") {
  const TemporaryDirectory directory;
  const StateDict saved = example();
  save_safetensors(directory.file("a"), saved);
  const StateDict loaded = load_safetensors(directory.file("a"));
  CHECK(loaded.texts == saved.texts);
  REQUIRE(loaded.tensors.size() == saved.tensors.size());
  for (const auto& [name, tensor] : saved.tensors) {
    INFO(name);
    const bool same_type = loaded.tensors.at(name).scalar_type() == tensor.scalar_type();
    CHECK(same_type);
    CHECK(loaded.tensors.at(name).equal(tensor));
  }
}

TEST_CASE("the checksum detects a flipped bit anywhere") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  save_safetensors(path, example());
  std::string bytes = directory.read("a");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  overwrite(path, bytes);
  CHECK(refusal(path).starts_with("\"" + path + "\": damaged: checksum "));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  const std::size_t note = bytes.find("quoted");
  bytes[note] = 'Q';
  overwrite(path, bytes);
  CHECK(refusal(path).find("damaged") != std::string::npos);
}

TEST_CASE("a damaged checksum does not disable the check") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  save_safetensors(path, example());
  std::string bytes = directory.read("a");
  const std::string key = "\"cpprun.crc32\":\"";
  const std::size_t digits = bytes.find(key);
  REQUIRE(digits != std::string::npos);
  bytes[digits + key.size()] = 'z';
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  overwrite(path, bytes);
  CHECK(refusal(path).find("is not a checksum") != std::string::npos);
}

TEST_CASE("a truncated file is rejected as such") {
  const TemporaryDirectory directory;
  const std::string path = directory.file("a");
  save_safetensors(path, example());
  const std::string bytes = directory.read("a");
  overwrite(path, bytes.substr(0, bytes.size() - 5));
  CHECK(refusal(path).find("bytes of data, the file has") != std::string::npos);
  overwrite(path, bytes.substr(0, 100));
  CHECK(refusal(path).find("truncated: the header has") != std::string::npos);
  overwrite(path, "");
  CHECK(refusal(path).find("not a safetensors file: 0 bytes") != std::string::npos);
}

TEST_CASE("a missing file is an error with its name") {
  CHECK(refusal("/none/a") == "cannot read \"/none/a\": No such file or directory");
}

TEST_CASE("a foreign file whose tensors are not aligned is still read") {
  const TemporaryDirectory directory;
  const std::string json = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  const std::string length(1, static_cast<char>(json.size()));
  const float value = 2.5;
  overwrite(directory.file("a"), length + std::string(7, '\0') + json + "\x09" +
                                     std::string(reinterpret_cast<const char*>(&value), 4));
  const StateDict loaded = load_safetensors(directory.file("a"));
  CHECK(loaded.tensors.at("a").item<int>() == 9);
  CHECK(loaded.tensors.at("b").item<float>() == 2.5);
}

TEST_CASE("a type that safetensors lacks is rejected before anything is written") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["complex"] = at::zeros({1}, at::kComplexDouble);
  CHECK_THROWS_AS(save_safetensors(directory.file("a"), state), FileError);
  CHECK(directory.entries() == 0);
}

TEST_CASE("types of eight bits are restored, and an impossible shape is an error of the file") {
  const TemporaryDirectory directory;
  StateDict state;
  state.tensors["e4m3"] = at::arange(16, at::kByte).view(at::kFloat8_e4m3fn);
  state.tensors["e5m2"] = at::arange(16, at::kByte).view(at::kFloat8_e5m2);
  save_safetensors(directory.file("a"), state);
  const StateDict loaded = load_safetensors(directory.file("a"));
  for (const auto& [name, tensor] : state.tensors) {
    CHECK((loaded.tensors.at(name).scalar_type() == tensor.scalar_type()));
    CHECK(loaded.tensors.at(name).view(at::kByte).equal(tensor.view(at::kByte)));
  }
  const std::string json =
      R"({"a":{"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}})";
  overwrite(directory.file("b"),
            std::string(1, static_cast<char>(json.size())) + std::string(7, '\0') + json);
  CHECK(refusal(directory.file("b")).find("that do not match its shape") != std::string::npos);
}

}  // namespace safetensors_file_test
