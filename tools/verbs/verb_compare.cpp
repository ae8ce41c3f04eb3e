#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "scenarios/src/studies/comparison.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

/// The verdict on memory, if it is not that the plan fits.
const char* memory_note(const Result& r) {
  const std::string_view words = r.fits_in_words();
  return words == "yes" ? "" : words == "no" ? " (does not fit)" : " (at risk)";
}

/// A table with a line for each figure and a column for each scenario.
std::string figures_table(const Comparison& comparison) {
  TextTable table{""};
  for (const Result& r : comparison.results) table.add_column(r.scenario);
  const auto add = [&](const char* name, const auto& cell) {
    std::vector<std::string> row{name};
    for (const Result& r : comparison.results) row.push_back(cell(r));
    table.rows.push_back(row);
  };
  const Result& first = comparison.results.front();
  add("step, ms", [](const Result& r) { return fmt::format("{:.4g}", r.step_time.value * 1e3); });
  add("against the first", [&first](const Result& r) {
    return &r == &first ? std::string("-")
                        : fmt::format("{:+.1f} %", relative_change(first.step_time.value, r.step_time.value) * 100);
  });
  if (std::ranges::any_of(comparison.results, [](const Result& r) { return r.likely_step_times.has_value(); }))
    add("step with 80 % probability, ms", [](const Result& r) {
      if (!r.likely_step_times) return std::string("-");
      return fmt::format("{:.4g} to {:.4g}", (*r.likely_step_times)[0] * 1e3, (*r.likely_step_times)[1] * 1e3);
    });
  std::vector<std::string> slower{"slower with probability"};
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const std::optional<double> probability = comparison.slower(i);
    slower.push_back(probability ? probability_text(*probability) : "-");
  }
  if (std::any_of(slower.begin() + 1, slower.end(), [](const std::string& cell) { return cell != "-"; }))
    table.rows.push_back(std::move(slower));
  add("samples/s", [](const Result& r) { return fmt::format("{:.4g}", r.samples_per_s); });
  add("MFU", [](const Result& r) { return fmt::format("{:.1f} %", r.mfu * 100); });
  add("memory, GiB", [](const Result& r) { return gib(r.memory.peak.value) + memory_note(r); });
  add("GPUs", [](const Result& r) { return fmt::format("{}", r.ranks); });
  add("bottleneck", [](const Result& r) { return r.bottleneck; });
  for (const Comparison::Difference& difference : comparison.differences) {
    std::vector<std::string> row{difference.path};
    for (const std::string& value : difference.values) row.push_back(value.empty() ? "-" : value);
    table.rows.push_back(row);
  }
  return table.text();
}

/// Says which parts of the step are longer or shorter than those of the first scenario.
std::string reasons(const Comparison& comparison) {
  std::string text;
  const Result& first = comparison.results.front();
  for (std::size_t i = 1; i < comparison.results.size(); ++i) {
    const Result& r = comparison.results[i];
    std::vector<std::string> words;
    for (const auto& [part, seconds] : changed_parts(first, r))
      words.push_back(fmt::format("{} {:+.4g} ms", part, seconds * 1e3));
    if (words.empty()) words.push_back("as long as the first");
    text += wrapped(r.scenario + ": ", words, ",");
  }
  return text;
}

/// A table of kernel families, then the longest kernels of the first families.
std::string kineto_text(const KinetoComparison& c) {
  const auto ms = [](double seconds) { return fmt::format("{:.4g}", seconds * 1e3); };
  std::string text =
      fmt::format("{} beside rank {} of {}: {} step{}{}\nstep {}{} ms simulated\n\n", c.trace, c.rank, c.scenario,
                  c.steps, c.steps == 1 ? "" : "s", c.counted ? "" : " (the trace marks none: --steps says how many)",
                  c.measured_step > 0 ? ms(c.measured_step) + " ms measured, " : "", ms(c.predicted_step));
  if (!c.doubts.empty()) text.insert(text.size() - 1, broken_lines(report_label("note") + c.doubts + "\n"));
  TextTable table{"kernels", ">measured, ms", ">simulated, ms", ">ratio", ">gap, ms", ">count", ">simulated"};
  const auto add = [&](const KinetoComparison::Family& f) {
    table.rows.push_back({f.name, ms(f.measured), ms(f.predicted), f.ratio() ? fmt::format("{:.2f}", *f.ratio()) : "-",
                          fmt::format("{:+.4g}", f.gap() * 1e3), fmt::format("{:.4g}", f.measured_count),
                          fmt::format("{:.4g}", f.predicted_count)});
  };
  KinetoComparison::Family all{"all", 0, 0, 0, 0, {}};
  for (const KinetoComparison::Family& f : c.families) {
    add(f);
    all.measured += f.measured;
    all.measured_count += f.measured_count;
    all.predicted += f.predicted;
    all.predicted_count += f.predicted_count;
  }
  add(all);
  text += table.text() + "\n";
  constexpr std::size_t most = 3, width = 80;
  for (std::size_t i = 0; i < std::min(c.families.size(), most); ++i)
    for (const KinetoComparison::Kernel& k : c.families[i].longest)
      text += fmt::format("{}: {} ms, {:.4g} × {:.{}}\n", c.families[i].name, ms(k.seconds), k.count, k.name, width);
  return text;
}

constexpr int kLastToFinish = std::numeric_limits<int>::min();

int compare_with_trace(const std::vector<std::string>& files, const Overrides& overrides, const std::string& kineto,
                       int rank, int steps, bool any_gpu, const std::string& json) {
  if (files.size() != 1) throw UserError("compare --kineto: one scenario file expected, to put beside the trace");
  const KinetoComparison c =
      compare_kineto(read_scenario(files.front(), overrides), kineto,
                     rank == kLastToFinish ? std::nullopt : std::optional<int>(rank), steps, any_gpu);
  if (json != "-") print(kineto_text(c));
  write_json(json, kineto_fields().json(c));
  return kGood;
}

int compare(const std::vector<std::string>& words) {
  Arguments arguments("compare",
                      "Simulates scenarios and shows them side by side: their differences, and where the time goes.",
                      "compare scenarios/gpt2-ddp-t4-servers.yaml my-copy.yaml");
  std::vector<std::string> files, sets;
  std::string json, kineto;
  int steps = 0, rank = kLastToFinish;
  bool any_gpu = false;
  arguments.positionals("SCENARIOS", files, "scenario files (YAML), two or more; with --kineto one");
  arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field in all scenarios; may be repeated");
  arguments.option(
      "--kineto", kineto, "FILE",
      "compare the simulated step, kernels by family, with this trace of PyTorch's profiler (.json, .json.gz) or this "
      "summary by Nsight Systems (nsys stats -r cuda_gpu_kern_sum --format csv)");
  arguments.option(
      "--steps", steps, "N",
      "with --kineto: number of training steps in the trace (default: those that it marks; a summary needs it)", 1);
  arguments.option("--rank", rank, "N", "with --kineto: the rank to compare (default: the last rank to finish)");
  arguments.flag("--any-gpu", any_gpu, "with --kineto: accept a trace of another GPU than the scenario's");
  arguments.output("--json", json, "write the whole comparison as JSON; - is stdout (and prints nothing else there)");
  if (!arguments.parse(words)) return kGood;
  const Overrides overrides = parse_overrides(sets);
  if (!kineto.empty()) return compare_with_trace(files, overrides, kineto, rank, steps, any_gpu, json);
  if (rank != kLastToFinish || steps != 0 || any_gpu) throw UserError("--rank, --steps, --any-gpu: only with --kineto");
  if (files.size() < 2) throw UserError("compare: two scenario files or more expected");
  std::vector<Scenario> scenarios;
  for (const std::string& file : files) scenarios.push_back(read_scenario(file, overrides));
  const Comparison comparison = compare_scenarios(scenarios);
  if (json != "-") {
    std::string device;
    for (const Scenario& scenario : scenarios) device = common_noun(device, device_noun(scenario.cluster));
    print(fmt::format("{}\n{}", in_words_of(device, figures_table(comparison)),
                      in_words_of(device, reasons(comparison))));
  }
  write_json(json, comparison_json(comparison));
  return kGood;
}

const RegisterVerb registered_compare{
    "compare", VerbGroup::predict, "show scenarios side by side: their differences, and where the time goes", compare};

}  // namespace
}  // namespace trainyard
