// How far an answer can be trusted, and what it stands on.
#include <fmt/format.h>

#include <algorithm>

#include "models/reading/catalog.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// Measured steps that stand beside their predictions.
struct Seen {
  int runs = 0;
  double errors = 0;  ///< summed over them
  std::vector<std::string> names;

  void add(const SoftwareStack::Judged& judged, const std::string& name) {
    runs += judged.runs;
    errors += judged.mean_error * judged.runs;
    names.push_back(name);
  }
  std::string in_words() const {
    return fmt::format("{} measured step{}, mean error {:.1f} %", runs, runs == 1 ? "" : "s", errors / runs * 100);
  }
};

/// What other stacks of the catalog did on that GPU.
Seen seen_by_other_stacks(const std::string& gpu) {
  const Catalog catalog;
  Seen seen;
  for (const std::string& name : catalog.names("stack"))
    for (const SoftwareStack::Judged& judged : read_stack(catalog.resolve("stack", Node::of_text(name))).judged)
      if (judged.gpu == gpu) seen.add(judged, name);
  return seen;
}

/// What is known of the error of such predictions, by `validate training`.
std::string judgement(const Scenario& s) {
  const std::string& gpu = s.cluster.node.gpu.name;
  if (s.measured.given())
    return "compute measured, its split over layers modelled; communication simulated, not judged yet\n";
  Seen elsewhere;
  for (const SoftwareStack::Judged& judged : s.software.judged) {
    if (judged.gpu == gpu && s.cluster.others.empty())
      return fmt::format(
          "{} measured step{} of this GPU and stack: mean error {:.1f} %, worst {:.1f} % (validate {})\n", judged.runs,
          judged.runs == 1 ? "" : "s", judged.mean_error * 100, judged.worst_error * 100, judged.set);
    elsewhere.add(judged, judged.gpu);
  }
  const bool same_stack = elsewhere.runs > 0;
  const Seen seen = same_stack ? elsewhere : seen_by_other_stacks(gpu);
  if (seen.runs == 0)
    return "extrapolated: no step was measured with this GPU, or with this stack (validate training)\n";
  return fmt::format("extrapolated from {} {}: {}\n", same_stack ? "this stack on" : "this GPU with",
                     fmt::join(seen.names, ", "), seen.in_words());
}

}  // namespace

std::string trust_lines(const Scenario& s) {
  const Sources& sources = s.sources;
  const auto unverified =
      std::count_if(sources.begin(), sources.end(), [](const FigureSource& figure) { return figure.unverified; });
  std::string text = report_label("trust");
  text += judgement(s);
  if (!s.plan.all_reduce.scaled.empty())
    text += fmt::format("{}collectives as NCCL does them, outside what was fitted: {}\n", report_label(""),
                        s.plan.all_reduce.scaled);
  if (!s.plan.all_reduce.judged.empty())
    text += wrapped(report_label("") + "collectives: error to expect ", {s.plan.all_reduce.judged}, " ");
  if (const double hidden = s.plan.sharding.user_buffers; hidden > 0)
    text +=
        fmt::format("{}{:.3g} % of tensor-parallel exchange hidden by user buffers: stated by the {}, not simulated\n",
                    report_label(""), hidden * 100, hidden == s.software.parallel.user_buffers ? "stack" : "plan");
  if (s.fp8 && s.software.fp8_attention)
    text += fmt::format("{}attention keeps its tensors in fp8 and takes as long as in 16 bits: no rate was measured\n",
                        report_label(""));
  text += fmt::format("{}{} figures, {} of them unverified (--sources lists them)\n", report_label(""), sources.size(),
                      unverified);
  return text;
}

std::string source_table(const Sources& sources) {
  std::string text;
  for (const FigureSource& s : sources)
    text += fmt::format("  {} = {}{}\n      {}\n", s.figure, s.value, s.unverified ? "  (unverified)" : "", s.source);
  return text;
}

}  // namespace trainyard
