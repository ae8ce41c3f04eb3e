#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The aim: 80 % intervals hold 75 to 85 % of the steps of a class, by steps and by families. A class with fewer steps
// than kFewestJudged says too little.
constexpr double kLeastCovered = 0.75, kMostCovered = 0.85;
constexpr std::size_t kFewestJudged = 20, kLikelyOne = 1;

bool is_within_aim(double share) { return share >= kLeastCovered && share <= kMostCovered; }

/// The parts of the aim that a class misses; "": none.
std::string missed_aim(const ClassCoverage& c) {
  if (c.steps < kFewestJudged) return "few";
  std::string text;
  const auto add = [&text](bool holds, const char* what) {
    if (!holds) text += text.empty() ? what : std::string(", ") + what;
  };
  add(is_within_aim(c.by_steps[kLikelyOne]), "steps");
  add(is_within_aim(c.by_families[kLikelyOne]), "families");
  add(c.half_width <= c.most_half_width, "width");
  return text;
}

std::string shares_of(const ClassCoverage& c, std::size_t p) {
  return fmt::format("{:.0f} / {:.0f}", c.by_steps[p] * 100, c.by_families[p] * 100);
}

OrderedJson json_of(const ClassCoverage& c) {
  return {{"class", c.name},
          {"steps", c.steps},
          {"families", c.families},
          {"probabilities", kCoverageProbabilities},
          {"inside_by_steps", c.by_steps},
          {"inside_by_families", c.by_families},
          {"median_half_width", c.half_width},
          {"aim_of_half_width", c.most_half_width},
          {"mean_error", c.error},
          {"mean_expected_error", c.expected_error},
          {"missed", missed_aim(c)}};
}

OrderedJson json_of(const CoveredStep& c) {
  return {{"family", c.step.family},
          {"row", c.step.row},
          {"predicted_over_measured", std::exp(c.step.left_out)},
          {"half_width", c.half_width},
          {"expected_error", c.expected_error},
          {"inside", c.inside}};
}

std::vector<FieldRow> coverage_rows() {
  return {
      {"classes", "list", "coverage of the intervals by class of steps", ""},
      {"classes[].class", "text", "name of the class", ""},
      {"classes[].steps", "number", "number of measured steps, at most 60 of a family", ""},
      {"classes[].families", "number", "number of families of measured runs", ""},
      {"classes[].probabilities", "[share]", "probabilities of the intervals", ""},
      {"classes[].inside_by_steps", "[share]", "share of the steps inside each interval", ""},
      {"classes[].inside_by_families", "[share]", "mean over the families of each one's share", ""},
      {"classes[].median_half_width", "share", "median half width of the 80 % interval", ""},
      {"classes[].aim_of_half_width", "share", "largest half width that the validation aims for", ""},
      {"classes[].mean_error", "share", "mean of |measured / predicted - 1| over the steps", ""},
      {"classes[].mean_expected_error", "share", "mean over the steps of the error to expect", ""},
      {"classes[].missed", "text", "what the class misses of the aim", ""},
      {"points", "list", "the measured steps", "with --points"},
      {"points[].family", "text", "family of measured runs", "with --points"},
      {"points[].row", "text", "name of the run", "with --points"},
      {"points[].predicted_over_measured", "ratio", "predicted step time over the measured one", "with --points"},
      {"points[].half_width", "share", "half width of its 80 % interval", "with --points"},
      {"points[].expected_error", "share", "the error to expect, by the doubt that makes the intervals",
       "with --points"},
      {"points[].inside", "[true|false]", "whether each interval holds the measured step", "with --points"},
  };
}
const RegisterJsonReference coverage_reference{"validate coverage", "how many measured steps the intervals hold",
                                               coverage_rows};

}  // namespace

int validate_coverage(const ValidationRequest& request) {
  const std::vector<LeftOutStep>& steps = kept_left_out_steps();
  const std::vector<CoveredStep> all = cover_each_family(steps);
  const std::vector<ClassCoverage> classes = coverage_by_class(all);
  TextTable table{"class",    ">steps",      ">families", ">in 50 %",  ">in 80 %",
                  ">in 95 %", ">half width", ">error",    ">expected", "misses"};
  OrderedJson sets = OrderedJson::array(), points = OrderedJson::array();
  for (const ClassCoverage& c : classes) {
    table.rows.push_back({c.name, fmt::format("{}", c.steps), fmt::format("{}", c.families), shares_of(c, 0),
                          shares_of(c, 1), shares_of(c, 2), fmt::format("±{}", percent(c.half_width)), percent(c.error),
                          percent(c.expected_error), missed_aim(c)});
    sets.push_back(json_of(c));
  }
  if (request.points)
    for (const CoveredStep& c : all) points.push_back(json_of(c));
  const ClassCoverage& every = classes.front();
  const bool holds = is_within_aim(every.by_steps[kLikelyOne]) && is_within_aim(every.by_families[kLikelyOne]);
  const std::string text = fmt::format(
      "intervals of step times against measured steps; prediction and interval know nothing of a step's family\n"
      "(at most {} steps of a family, spread evenly; each cell: per cent of the steps / mean over families)\n{}"
      "half width: median of the 80 % intervals; error: mean of |measured / predicted - 1| over the steps; expected:\n"
      "mean of the errors to expect, as run prints them. Aim of a class with {} steps or more: the 80 % intervals "
      "hold\n"
      "{:.0f} to {:.0f} % by steps and by families, with a half width of at most 8 % (dense, known stack), 10 % (any "
      "stack),\n25 % (others). The classes \"dense, any stack\", \"more than 1,000 devices\" and \"all\" contain "
      "steps of the others.\n",
      kMostOfFamily, table.text(), kFewestJudged, kLeastCovered * 100, kMostCovered * 100);
  if (!request.csv.empty()) write_atomically(request.csv, DoubtModel::fit(steps).csv());
  OrderedJson json{{"classes", sets}};
  if (request.points) json["points"] = points;
  report(request, text, json);
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
