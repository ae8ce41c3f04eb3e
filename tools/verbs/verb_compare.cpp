#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/studies/comparison.hpp"
#include "scenarios/src/traces/kineto_comparison.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/comparison_report.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

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

int compare_with_trace(const std::vector<std::string>& files, const Overrides& overrides, const std::string& kineto,
                       std::optional<int> rank, int steps, bool any_gpu, const std::string& json) {
  if (files.size() != 1) throw UserError("compare --kineto: one scenario file expected, to put beside the trace");
  const KinetoComparison c = compare_kineto(read_scenario(files.front(), overrides), kineto, rank, steps, any_gpu);
  if (json != "-") print(kineto_text(c));
  write_json(json, kineto_fields().json(c));
  return kGood;
}

int compare(const std::vector<std::string>& words) {
  Arguments arguments("compare",
                      "Simulates scenarios and shows them side by side: their differences, and where the time goes.",
                      "compare scenarios/gpt2-ddp-t4-servers.yaml my-copy.yaml");
  std::vector<std::string> files, sets;
  std::string json, kineto, prices, html;
  int steps = 0;
  std::optional<int> rank;
  bool any_gpu = false;
  arguments.positionals("SCENARIOS", files, "scenario files (YAML), two or more; with --kineto one");
  arguments.repeated_flag("--set", sets, "PATH=VALUE", "override a field in all scenarios; may be repeated");
  arguments.option(
      "--kineto", kineto, "FILE",
      "compare the simulated step, kernels by family, with this trace of PyTorch's profiler (.json, .json.gz), this "
      "export of Nsight Systems (.sqlite) or this summary of it (nsys stats -r cuda_gpu_kern_sum --format csv)");
  arguments.option(
      "--steps", steps, "N",
      "with --kineto: number of training steps in the trace (default: those that it marks; a summary needs it)", 1);
  arguments.option("--rank", rank, "N", "with --kineto: the rank to compare (default: the last rank to finish)");
  arguments.flag("--any-gpu", any_gpu, "with --kineto: accept a trace of another GPU than the scenario's");
  arguments.option("--prices", prices, "FILE",
                   "compare cost and energy, too, by your prices (scenarios/prices-example.yml shows how); they take "
                   "the place of those of the scenarios");
  arguments.output("--json", json, "write the whole comparison as JSON; - is stdout (and prints nothing else there)");
  arguments.output("--html", html,
                   "write a page with the verdict, the figures side by side and the differences; - is stdout");
  if (!arguments.parse(words)) return kGood;
  if (!html.empty() && !kineto.empty()) throw UserError("--html: only without --kineto");
  const Overrides overrides = parse_overrides(sets, prices);
  if (!kineto.empty()) return compare_with_trace(files, overrides, kineto, rank, steps, any_gpu, json);
  if (rank || steps != 0 || any_gpu) throw UserError("--rank, --steps, --any-gpu: only with --kineto");
  if (files.size() < 2) throw UserError("compare: two scenario files or more expected");
  std::vector<Scenario> scenarios;
  for (const std::string& file : files) scenarios.push_back(read_scenario(file, overrides));
  const Comparison comparison = compare_scenarios(scenarios);
  std::string device;
  for (const Scenario& scenario : scenarios) device = common_noun(device, device_noun(scenario.cluster));
  const std::string text = in_words_of(device, comparison_screen(comparison));
  if (arguments.leaves_stdout_free()) print(text);
  write_json(json, comparison_fields().json(comparison));
  if (!html.empty()) write_atomically(html, comparison_page(comparison, text, scenarios));
  return kGood;
}

const RegisterVerb registered_compare{
    "compare", VerbGroup::predict, "show scenarios side by side: their differences, and where the time goes", compare};

}  // namespace
}  // namespace trainyard
