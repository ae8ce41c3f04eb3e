#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "models/document.hpp"
#include "scenarios/simulate.hpp"
#include "scenarios/size.hpp"
#include "sim/error.hpp"
#include "sim/output.hpp"
#include "tools/arguments.hpp"
#include "tools/report.hpp"
#include "tools/verbs.hpp"

namespace trainyard {
namespace {

/// One file cannot hold two answers.
void check_outputs(const std::vector<std::string>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    check_writable(files[i]);
    for (std::size_t j = i + 1; j < files.size(); ++j)
      if (files[i] == files[j] && files[i] != "/dev/null")
        throw UserError(fmt::format("{}: two outputs go to one file", files[i]));
  }
}

constexpr int kLastRank = std::numeric_limits<int>::min();

int run(const std::vector<std::string>& words) {
  Arguments arguments("run", "Simulates one training step of a scenario: time, breakdown, memory, bottleneck, trust.",
                      "run scenarios/gpt2-xl-ddp-dgx-a100.yaml --set plan.micro_batch_size=8 --json answer.json");
  std::string file, json, trace, picture, transport;
  int rank = kLastRank;
  std::vector<std::string> sets, required;
  bool timing = false, sources = false, no_what_if = false;
  arguments.positional("SCENARIO", file, "scenario file (YAML)");
  arguments.repeated("--set", sets, "PATH=VALUE", "override a field, as often as needed");
  arguments.option("--json", json, "FILE",
                   "write the whole answer as JSON; - is stdout (and prints nothing else there)");
  arguments.option("--trace", trace, "FILE", "write a Chrome/Perfetto trace; - is stdout");
  arguments.option("--picture", picture, "FILE", "draw the step of one rank as SVG; - is stdout");
  arguments.option("--rank", rank, "N", "the rank to draw (default: the one that ends last)");
  arguments.option("--transport", transport, "native|flow",
                   "who shares the links: SimGrid's communications, or the fast solver (default; the same to 1e-9)");
  arguments.repeated("--require", required, "fits", "end with exit code 1 unless the plan fits into memory");
  arguments.flag("--timing", timing, "add the wall time of the simulation to the JSON");
  arguments.flag("--sources", sources, "list every figure with its source");
  arguments.flag("--no-what-if", no_what_if, "one simulation only: no table of upgrades");
  if (!arguments.parse(words)) return kGood;
  check_outputs({json, trace, picture});
  if (rank != kLastRank && picture.empty()) throw UserError("--rank: only with --picture");

  for (const std::string& what : required)
    if (what != "fits") throw UserError(fmt::format("--require {}: unknown{}", what, hint(what, {"fits"})));

  Overrides overrides;
  for (const std::string& set : sets) overrides.push_back(parse_override_option(set));
  const Scenario scenario = read_scenario(file, overrides);
  SimulateOptions options;
  options.trace = trace;
  options.picture = picture;
  if (rank != kLastRank) options.picture_rank = rank;
  if (!transport.empty()) options.transport = parse_transport(transport);
  options.progress = true;
  Result result = simulate(scenario, options);
  // What simulates again many times is left out of a step of minutes.
  const bool said = !result.said_step.empty();
  if (said && !(trace.empty() && picture.empty()))
    throw UserError("--trace, --picture: plan.step_time is not simulated");
  const bool large = said || estimated_operations(scenario) > kMostOfPath;
  if (!result.fits && !large) result.capacity = capacity(scenario);
  if (!result.fits && scenario.parallel.any()) result.changes = fitting_changes(scenario);
  std::vector<WhatIf> what_ifs;
  if (!no_what_if && !large) what_ifs = what_if(scenario, 2, options.transport);
  if (json != "-" && trace != "-" && picture != "-") {
    fmt::print("{}", screen(scenario, result, what_ifs));
    if (sources) fmt::print("\n{}", source_table(scenario.sources));
  }
  if (!json.empty()) write_whole(json, report_json(result, what_ifs, scenario.sources, timing).dump(2) + "\n");
  const bool fails = std::find(required.begin(), required.end(), "fits") != required.end() && !result.fits;
  return fails ? kFailsLimit : kGood;
}

const RegisterVerb registered{"run", "simulate one training step of a scenario", run};

}  // namespace
}  // namespace trainyard
