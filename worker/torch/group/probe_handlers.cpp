// SPDX-License-Identifier: BSD-3-Clause
#include "worker/torch/group/probe_handlers.h"

#include <torch/csrc/distributed/c10d/control_plane/Handlers.hpp>

#include <exception>
#include <map>
#include <utility>

namespace cpprun {

namespace {

namespace control_plane = c10d::control_plane;

// Without a body and parameters.
class EmptyRequest : public control_plane::Request {
 public:
  const std::string& body() const override { return body_; }
  const std::multimap<std::string, std::string>& params() const override { return params_; }

 private:
  std::string body_;
  std::multimap<std::string, std::string> params_;
};

class KeptResponse : public control_plane::Response {
 public:
  void setContent(std::string&& content, const std::string& /*content_type*/) override {
    content_ = std::move(content);
  }
  void setStatus(int status) override { status_ = status; }

  std::optional<std::string> content() const {
    constexpr int ok = 200;
    return status_ == ok ? std::optional(content_) : std::nullopt;
  }

 private:
  std::string content_;
  int status_ = 200;
};

}  // namespace

std::optional<std::string> torch_handler_answer(std::string_view name) {
  try {
    KeptResponse response;
    control_plane::getHandler(std::string(name))(EmptyRequest(), response);
    return response.content();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace cpprun
