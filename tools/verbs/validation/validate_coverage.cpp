#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/fitted/nccl_network_fit.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/device_memories.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validate_systems.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The aim: 80 % intervals hold 75 to 85 % of the rows of a class, by rows and by families. A class with fewer rows than
// kFewestJudged says too little.
constexpr double kLeastCovered = 0.75, kMostCovered = 0.85, kMostHalfWidth = 0.25;
constexpr std::size_t kFewestJudged = 20, kLikelyOne = 1;

bool is_within_aim(double share) { return share >= kLeastCovered && share <= kMostCovered; }

/// The parts of the aim that a class misses; "": none.
std::string missed_aim(const ClassCoverage& c) {
  if (c.steps < kFewestJudged) return "few";
  std::string text;
  const auto add = [&text](bool holds, const char* what) {
    if (!holds) text += text.empty() ? what : std::string(", ") + what;
  };
  add(is_within_aim(c.by_steps[kLikelyOne]), "rows");
  add(is_within_aim(c.by_families[kLikelyOne]), "families");
  add(c.half_width <= c.most_half_width, "width");
  return text;
}

std::string shares_of(const ClassCoverage& c, std::size_t p) {
  return fmt::format("{:.0f} / {:.0f}", c.by_steps[p] * 100, c.by_families[p] * 100);
}

/// The classes of collectives: all, those in one node, those between nodes, and large ones.
std::vector<ClassCoverage> collective_classes() {
  std::vector<CoveredRow> all, inside, between, large;
  for (const CoveredCollective& row : cover_each_collective(collective_errors())) {
    all.push_back(row);
    (row.kind.starts_with("in one node") ? inside : between).push_back(row);
    if (row.size >= kLargeCollective) large.push_back(row);
  }
  return {coverage_of("collectives", kMostHalfWidth, all),
          coverage_of("collectives in one node", kMostHalfWidth, inside),
          coverage_of("collectives between nodes", kMostHalfWidth, between),
          coverage_of("collectives from 64 MiB", kMostHalfWidth, large)};
}

/// The verdicts on measured runs that ran out of memory, and on others.
struct CoveredVerdicts {
  MemoryVerdicts out_of_memory, ran;
  bool hold() const {
    return out_of_memory.yes == 0 && static_cast<double>(ran.no) <= kMostRefused * static_cast<double>(ran.runs);
  }
};

OrderedJson json_of(const MemoryVerdicts& v) {
  return {{"runs", v.runs}, {"fits", v.yes}, {"at_risk", v.at_risk}, {"does_not_fit", v.no}};
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
  return {{"family", c.family},
          {"row", c.step.row},
          {"predicted_over_measured", std::exp(c.step.left_out)},
          {"half_width", c.half_width},
          {"expected_error", c.expected_error},
          {"inside", c.inside}};
}

std::vector<FieldRow> coverage_rows() {
  return {
      {"classes", "list", "coverage of the intervals by class of steps, collectives and memory", ""},
      {"classes[].class", "text", "name of the class", ""},
      {"classes[].steps", "number", "number of measured rows, at most 60 steps of a family", ""},
      {"classes[].families", "number", "number of families of measured runs, or of systems", ""},
      {"classes[].probabilities", "[share]", "probabilities of the intervals", ""},
      {"classes[].inside_by_steps", "[share]", "share of the rows inside each interval", ""},
      {"classes[].inside_by_families", "[share]", "mean over the families of each one's share", ""},
      {"classes[].median_half_width", "share", "median half width of the 80 % interval", ""},
      {"classes[].aim_of_half_width", "share", "largest half width that the validation aims for", ""},
      {"classes[].mean_error", "share", "mean of |measured / predicted - 1| over the rows", ""},
      {"classes[].mean_expected_error", "share", "mean over the steps of the error to expect; 0: not stated", ""},
      {"classes[].missed", "text", "what the class misses of the aim", ""},
      {"memory_verdicts", "object", "numbers of measured runs by the verdict on their memory", ""},
      {"memory_verdicts.ran", "object", "runs that ran, at most 60 of a family", ""},
      {"memory_verdicts.ran.runs", "number", "all of them", ""},
      {"memory_verdicts.ran.fits", "number", "those that are said to fit", ""},
      {"memory_verdicts.ran.at_risk", "number", "those that are said to be at risk", ""},
      {"memory_verdicts.ran.does_not_fit", "number", "those that are said not to fit", ""},
      {"memory_verdicts.out_of_memory", "object", "runs that ran out of memory", ""},
      {"memory_verdicts.out_of_memory.runs", "number", "all of them", ""},
      {"memory_verdicts.out_of_memory.fits", "number", "those that are said to fit", ""},
      {"memory_verdicts.out_of_memory.at_risk", "number", "those that are said to be at risk", ""},
      {"memory_verdicts.out_of_memory.does_not_fit", "number", "those that are said not to fit", ""},
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
  const std::vector<FamilyMemory> memories = predict_memories(memory_families(), kMostOfFamily);
  const CoveredVerdicts verdicts{memory_verdicts(memories, true, true), memory_verdicts(memories, false, true)};
  std::vector<ClassCoverage> classes = coverage_by_class(all), judged{classes.front()};
  const std::vector<ClassCoverage> collectives = collective_classes();
  judged.push_back(collectives.front());
  classes.insert(classes.end(), collectives.begin(), collectives.end());
  judged.push_back(classes.emplace_back(coverage_of("memory", kMostHalfWidth, cover_each_memory(memories))));
  TextTable table{"class",    ">rows",       ">families", ">in 50 %",  ">in 80 %",
                  ">in 95 %", ">half width", ">error",    ">expected", "misses"};
  OrderedJson sets = OrderedJson::array(), points = OrderedJson::array();
  for (const ClassCoverage& c : classes) {
    table.rows.push_back({c.name, fmt::format("{}", c.steps), fmt::format("{}", c.families), shares_of(c, 0),
                          shares_of(c, 1), shares_of(c, 2), fmt::format("±{}", percent(c.half_width)), percent(c.error),
                          c.expected_error > 0 ? percent(c.expected_error) : "", missed_aim(c)});
    sets.push_back(json_of(c));
  }
  if (request.points)
    for (const CoveredStep& c : all) points.push_back(json_of(c));
  const bool holds = verdicts.hold() && std::ranges::all_of(judged, [](const ClassCoverage& c) {
                       return is_within_aim(c.by_steps[kLikelyOne]) && is_within_aim(c.by_families[kLikelyOne]);
                     });
  const auto& [out_of_memory, ran] = verdicts;
  const std::string text = fmt::format(
      "intervals against measured step times, collectives and memory; prediction and interval know nothing of a row's "
      "family\n(at most {} steps of a family, spread evenly; each cell: per cent of the rows / mean over families)\n{}"
      "half width: median of the 80 % intervals; error: mean of |measured / predicted - 1| over the rows; expected:\n"
      "mean of the errors to expect, as run prints them. Aim of a class with {} rows or more: the 80 % intervals "
      "hold\n"
      "{:.0f} to {:.0f} % by rows and by families, with a half width of at most 8 % (dense, known stack), 10 % (any "
      "stack),\n25 % (others). The classes \"dense, any stack\", \"more than 1,000 devices\" and \"all steps\" contain "
      "steps of the others.\nA family of collectives is a measured system. Of memory each source is left out of the "
      "interval, not of the prediction.\n"
      "verdicts on memory: of {} runs that ran out of memory {} fit (aim: none), {} are at risk, {} do not fit; of {} "
      "that ran\n{} fit, {} are at risk, {} do not fit (aim: at most one in fifty)\n",
      kMostOfFamily, table.text(), kFewestJudged, kLeastCovered * 100, kMostCovered * 100, out_of_memory.runs,
      out_of_memory.yes, out_of_memory.at_risk, out_of_memory.no, ran.runs, ran.yes, ran.at_risk, ran.no);
  if (!request.csv.empty()) write_atomically(request.csv, DoubtModel::fit(steps).csv());
  OrderedJson json{{"classes", sets},
                   {"memory_verdicts", {{"ran", json_of(ran)}, {"out_of_memory", json_of(out_of_memory)}}}};
  if (request.points) json["points"] = points;
  report(request, text, json);
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
