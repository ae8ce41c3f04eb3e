#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/adapter_rate.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/faster_fields.hpp"
#include "sim/stable_sort.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// A faster resource may make a list schedule longer (Graham 1969). A step that grows by a larger share is reported.
constexpr double kAnomaly = 1e-3;
/// What-ifs that save a smaller share of the step are not named.
constexpr double kWorthNaming = 0.005;

/// Says that "compute" and "GPU compute" are not the same, if kernels of the forward and backward pass wait for memory.
std::string kernels_bound_by_memory(const Result& r) {
  constexpr double kWorthSaying = 0.05;  // share of the step
  const auto memory = r.critical_path.find("GPU memory");
  const Result::Breakdown& b = r.breakdown;
  if (memory == r.critical_path.end() ||
      memory->second - b.optimizer.value - b.compression.value < kWorthSaying * r.step_time.value)
    return "";
  return fmt::format(
      "{}\"compute\" ({} of the step) is the time of kernels; GPU memory bounds some of them, so that more FLOP/s do "
      "not shorten them\n",
      report_label(""), percent(b.compute.value / b.step_time.value, 0));
}

/// Explains why the critical path has more of the framework than the step's parts; "" if it has not. If the host does not
/// run ahead, a kernel lasts at least as long as its launch, and all of it is computing in the step's parts.
std::string framework_of_path(const Scenario& s, const Result& r) {
  constexpr double kDiffers = 0.02;  // share of the step
  const auto found = r.critical_path.find("framework");
  const double part = r.breakdown.framework.value / r.step_time.value;
  if (found == r.critical_path.end() || found->second / r.step_time.value <= part + kDiffers) return "";
  return fmt::format(
      "{}the part \"framework\" ({} of the step) is the time in which a rank waits for its host; on the critical path "
      "the framework also has {}, and the software inside communication\n",
      report_label(""), percent(part),
      s.software.host.runs_ahead ? "the kernels that run while their host is late"
                                 : "kernels that are shorter than their launches, which \"compute\" counts");
}

/// The fields of a what-if as a shell takes them, on lines of a screen's width that end with a backslash. If there are very
/// many, only the first ones.
std::string sets_of(const WhatIf& w) {
  constexpr std::size_t most = 8, width = 116;
  std::string text, line = "  " + what_if_in_words(w.resource_class, w.factor) + ":";
  for (std::size_t i = 0; i < std::min(most, w.sets.size()); ++i) {
    const std::string word = fmt::format(" --set \"{}\"", w.sets[i]);
    if (line.size() + word.size() > width) {
      text += line + " \\\n";
      line = "     ";
    }
    line += word;
  }
  if (w.sets.size() > most) line += fmt::format(" … and {} more: --json lists them", w.sets.size() - most);
  return text + line + "\n";
}

/// Says how far adapters get faster if the slot of an adapter passes less than the what-if asks for; else "".
std::string slot_line(const Scenario& s, const Result& r, const std::vector<WhatIf>& what_ifs) {
  for (const WhatIf& w : what_ifs) {
    if (w.resource_class != name_of(LinkKind::hca) || w.saves(r.step_time) < kWorthNaming) continue;
    for (const NodeType* type : s.cluster.types()) {
      NodeType faster = *type;
      faster.hca_rate = type->hca_rate * w.factor;
      const BytesPerSecond passed = slot_rate(faster);
      if (passed < faster.hca_rate)
        return fmt::format("{}{} is {:.3g}x: the slot of an adapter of {} passes {:.4g} of {:.4g} Gbit/s\n",
                           report_label(""), what_if_in_words(w.resource_class, w.factor), passed / slot_rate(*type),
                           type->name, passed.value * 8e-9, faster.hca_rate.value * 8e-9);
    }
  }
  return "";
}

/// A line for each what-if that the scenario refuses, after a label on the first line.
std::string refused_lines(const Result& r, std::string label) {
  std::string text;
  for (const RefusedWhatIf& refused : r.refused_what_ifs) {
    text += fmt::format("{}{} is not possible: {}\n", label, what_if_in_words(refused.resource_class, refused.factor),
                        refused.reason);
    if (!label.empty()) label = report_label("");
  }
  return text;
}

}  // namespace

std::string what_if_line(const Result& r, const std::vector<WhatIf>& what_ifs) {
  if (what_ifs.empty()) return refused_lines(r, report_label("what if"));
  const Seconds step = r.main_time();
  std::vector<WhatIf> best = what_ifs;
  sort_stably(best, [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  std::string text = fmt::format("{}{} saves {} of {}", report_label("what if"),
                                 what_if_in_words(best.front().resource_class, best.front().factor),
                                 percent(std::max(0.0, best.front().saves(step))),
                                 r.post_training ? "the loop step"
                                 : r.generation  ? "the time until the last answer"
                                                 : "the step");
  std::size_t named = 1;
  for (; named < best.size() && best[named].saves(step) >= kWorthNaming; ++named)
    text += fmt::format(", {} {}", what_if_in_words(best[named].resource_class, best[named].factor),
                        percent(best[named].saves(step)));
  text += named == best.size() ? "" : fmt::format("; every other change saves less than {}", percent(kWorthNaming));
  std::reverse(best.begin(), best.end());
  for (const WhatIf& w : best)
    if (w.saves(step) <= -kWorthNaming)
      text +=
          fmt::format("; {} lengthens it by {}", what_if_in_words(w.resource_class, w.factor), percent(-w.saves(step)));
  return text + "\n" + refused_lines(r, report_label(""));
}

std::string bottleneck_lines(const Scenario& s, const Result& r, const std::vector<WhatIf>& what_ifs) {
  if (r.critical_path.empty() && !s.plan.mechanism->is_synchronous())
    return fmt::format("{}not defined: workers do not step together; see what they wait for\n",
                       report_label("bottleneck"));
  if (r.critical_path.empty())
    return fmt::format("{}not recorded: it needs every operation of all steps, and these are too many\n",
                       report_label("bottleneck"));
  const std::vector<std::pair<double, std::string>> shares = r.shares();
  std::string text = fmt::format("{}{}{}, {} of the critical path", report_label("bottleneck"),
                                 r.post_training ? fmt::format("of the {}: ", r.post_training->training_part())
                                 : r.generation  ? "of a forward pass: "
                                                 : "",
                                 r.bottleneck, percent(r.bottleneck_share, 0));
  for (std::size_t i = 1; i < std::min<std::size_t>(3, shares.size()); ++i)
    text += fmt::format("{} {} {}", i == 1 ? "; then" : ",", shares[i].second,
                        percent(shares[i].first / r.step_time.value));
  text += "\n" + kernels_bound_by_memory(r) + framework_of_path(s, r);
  if (r.post_training || r.generation) return text;
  text += what_if_line(r, what_ifs) + slot_line(s, r, what_ifs);
  for (const WhatIf& w : what_ifs)
    if (w.resource_class == kMeshOrder && w.saves(r.step_time) >= kWorthNaming)
      text += fmt::format(
          "{}pipelines cross the network between sites; within sites they save {} of the step:\n{}--set \"{}\"\n",
          report_label("advice"), percent(w.saves(r.step_time)), report_label(""), w.sets.front());
  for (const WhatIf& w : what_ifs)
    if (w.resource_class != kMeshOrder && w.saves(r.step_time) < -kAnomaly && s.plan.mechanism->is_synchronous())
      text += fmt::format(
          "{}{} makes it {:.1f} % slower: transfers then meet on links that they had to themselves (a scheduling "
          "anomaly)\n",
          report_label(""), what_if_in_words(w.resource_class, w.factor), -w.saves(r.step_time) * 100);
  return text;
}

std::string what_if_table(const Result& r, const std::vector<WhatIf>& what_ifs) {
  std::vector<WhatIf> sorted = what_ifs;
  sort_stably(sorted, [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  const bool fails = std::ranges::any_of(sorted, [](const WhatIf& w) { return w.goodput > 0; });
  std::string text = fmt::format("{:<32} {:>10} {:>9}", "change", r.generation ? "all after" : "step", "saves");
  text += fails ? fmt::format(" {:>9} {:>16}\n", "goodput", "with failures") : "\n";
  for (const WhatIf& w : sorted) {
    text += fmt::format("{:<32} {:>10} {:>9}", what_if_in_words(w.resource_class, w.factor), show(w.step_time),
                        percent(w.saves(r.main_time())));
    if (w.goodput > 0) text += fmt::format(" {:>7.2f} % {:>9} a step", w.goodput * 100, show(w.effective_step_time));
    if (!w.goodput_refused.empty()) text += " no goodput: " + w.goodput_refused;
    text += "\n";
  }
  if (!sorted.empty() && sorted.front().compared_with.value > 0)
    text += fmt::format("compared with {}: workers are not in step, and plan.steps is too small to tell\n",
                        show(sorted.front().compared_with));
  if (!sorted.empty()) text += "the same by hand, with run:\n";
  for (const WhatIf& w : sorted) text += sets_of(w);
  return text + refused_lines(r, "");
}

}  // namespace trainyard
