// How far an answer can be trusted, and what it stands on.
#include <fmt/format.h>

#include <algorithm>

#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// "PCI Express 4.0: 16 lanes of …" → its title.
std::string title(std::string source) {
  if (source.starts_with("fit: ")) {
    const std::size_t file = source.find(".csv of ");
    if (file == std::string::npos) return source.substr(0, source.find_first_of(",;:", 5));
    const std::size_t from = source.find_last_of(" `,", file);
    return "fit to " + source.substr(from + 1, source.find_first_of(",;:", file) - from - 1);
  }
  return source.substr(0, source.find_first_of(",:;"));
}

bool is_assumption(const std::string& source) {
  return source.starts_with("assumed") || source.starts_with("by definition");
}

/// What is known of the error of such predictions.
std::string judgement(const Scenario& s) {
  for (const SoftwareStack::Judged& judged : s.software.judged)
    if (judged.gpu == s.cluster.node.gpu.name && s.cluster.others.empty())
      return fmt::format(
          "{} measured step{} of this GPU and stack: mean error {:.1f} %, worst {:.1f} % (validate "
          "training)\n",
          judged.runs, judged.runs == 1 ? "" : "s", judged.mean_error * 100, judged.worst_error * 100);
  return s.measured.given()
             ? "compute measured, its split over layers modelled; communication simulated, not judged yet\n"
             : "not judged yet: no measured step has been compared with this machine and stack\n";
}

}  // namespace

std::string trust_lines(const Scenario& s) {
  const Sources& sources = s.sources;
  std::vector<std::string> titles, unverified;
  for (const FigureSource& figure : sources) {
    if (!is_assumption(figure.source) && !figure.source.empty()) {
      const std::string t = title(figure.source);
      if (std::find(titles.begin(), titles.end(), t) == titles.end()) titles.push_back(t);
    }
    if (figure.unverified) {
      const std::size_t colon = figure.figure.find(": ");
      unverified.push_back(figure.figure.substr(colon == std::string::npos ? 0 : colon + 2));
    }
  }
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
  text += wrapped(report_label("") + "sources: ", titles, "; ");
  if (!unverified.empty())
    text += wrapped(report_label("") + fmt::format("{} figures unverified: ", unverified.size()), unverified, ", ");
  return text;
}

std::string source_table(const Sources& sources) {
  std::string text;
  for (const FigureSource& s : sources)
    text += fmt::format("  {} = {}{}\n      {}\n", s.figure, s.value, s.unverified ? "  (unverified)" : "", s.source);
  return text;
}

}  // namespace trainyard
