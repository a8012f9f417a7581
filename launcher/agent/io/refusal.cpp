// SPDX-License-Identifier: BSD-3-Clause
#include "launcher/agent/io/refusal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "launcher/io/wall_clock.h"
#include "launcher/plan/io/host.h"

namespace cpprun::io {

namespace {

void complain(const std::string& text) {
  std::fputs(text.c_str(), stderr);
}

void leave_report(const RunInputs& inputs, const Refusal& refusal) {
  if (!inputs.output_files.keeps_report()) return;
  auto facts = facts_before_the_start(inputs);
  facts.running = false;
  facts.ended = facts.started;
  facts.exit_code = refusal.code;
  facts.reason = refusal.reason;
  const auto left = inputs.output_files.leave_report(report_json(facts), "." + inputs.host);
  if (!left) complain(ConsoleMessages{inputs.style}.error(left.error().reason));
}

}  // namespace

ReportFacts facts_before_the_start(const RunInputs& inputs) {
  ReportFacts facts{.job = inputs.config.job, .host = inputs.host};
  facts.entrypoint = inputs.config.program.script;
  facts.program = {inputs.config.program.script};
  facts.running = true;
  facts.pid = ::getpid();
  facts.started = wall_now();
  return facts;
}

int refuse(const RunInputs& inputs, const Refusal& refusal) {
  leave_report(inputs, refusal);
  complain(ConsoleMessages{inputs.style}.error(refusal.reason));
  return refusal.code;
}

int refuse(CliMistakes mistakes) {
  RunInputs inputs;
  inputs.host = host_name();
  const auto add = [&](const Error& wrong) { mistakes.mistakes.push_back(wrong.reason); };
  if (auto files = OutputFiles::open(mistakes.report_file, "", *inputs.side)) {
    inputs.output_files = std::move(*files);
    // Whatever is there is an earlier run's. What cannot be written now is told below.
    (void)inputs.output_files.announce_report(report_json(facts_before_the_start(inputs)));
  } else {
    add(files.error());
  }
  const auto events = OutputFiles::try_events(mistakes.events_file, *inputs.side);
  if (!events) add(events.error());
  const auto reason = fmt::format("{}", fmt::join(mistakes.mistakes, "; "));
  leave_report(inputs, {.reason = reason, .code = usage_exit_code});
  complain(to_text(mistakes));
  return usage_exit_code;
}

}  // namespace cpprun::io
