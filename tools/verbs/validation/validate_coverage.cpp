#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/fitted/nccl_network_fit.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/device_memories.hpp"
#include "scenarios/src/studies/measured/generation_doubt.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/left_out_errors.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validate_systems.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

// The aim: 80 % intervals hold 75 to 85 % of the rows of a class, by rows and by families. A class with fewer rows than
// kFewestJudged says too little.
constexpr double kLeastCovered = 0.75, kMostCovered = 0.85, kMostHalfWidth = 0.25;
constexpr std::size_t kFewestJudged = 20;

bool is_within_aim(double share) { return share >= kLeastCovered && share <= kMostCovered; }

/// The parts of the aim that a class misses; "": none.
std::string missed_aim(const ClassCoverage& c) {
  if (c.steps < kFewestJudged) return "few";
  std::string text;
  const auto add = [&text](bool holds, const char* what) {
    if (!holds) text += text.empty() ? what : std::string(", ") + what;
  };
  add(is_within_aim(c.by_steps[kLikelyIndex]), "rows");
  add(is_within_aim(c.by_families[kLikelyIndex]), "families");
  add(c.half_width <= c.most_half_width, "width");
  return text;
}

std::string shares_of(const ClassCoverage& c, std::size_t p) {
  return fmt::format("{:.0f} / {:.0f}", c.by_steps[p] * 100, c.by_families[p] * 100);
}

/// The classes of collectives: all, those in one node, those between nodes, and large ones.
std::vector<ClassCoverage> collective_classes() {
  std::vector<CoveredRow> all, inside, between, large, anchored;
  const std::vector<CollectiveError> errors = collective_errors();
  for (const CoveredCollective& row : cover_each_collective(errors, true)) anchored.push_back(row);
  for (const CoveredCollective& row : cover_each_collective(errors)) {
    all.push_back(row);
    (row.kind.starts_with("in one node") ? inside : between).push_back(row);
    if (row.size >= kLargeCollective) large.push_back(row);
  }
  return {coverage_of("collectives", kMostHalfWidth, all),
          coverage_of("collectives in one node", kMostHalfWidth, inside),
          coverage_of("collectives between nodes", kMostHalfWidth, between),
          coverage_of("collectives from 64 MiB", kMostHalfWidth, large),
          coverage_of("collectives, anchored", kMostHalfWidth, anchored)};
}

/// The classes of figures of engines.
std::vector<ClassCoverage> engine_classes() {
  std::vector<ClassCoverage> classes;
  for (std::size_t i = 0; i < kGenerationFigures.size(); ++i)
    classes.push_back(coverage_of(fmt::format("engines, {}", kGenerationFigures[i]), kMostHalfWidth,
                                  cover_each_engine(GenerationDoubt::shipped(), static_cast<GenerationFigure>(i))));
  return classes;
}

/// The verdicts on measured runs that ran out of memory, and on others.
struct CoveredVerdicts {
  MemoryVerdicts out_of_memory, ran;
  bool hold() const {
    return out_of_memory.yes == 0 && static_cast<double>(ran.no) <= kMostRefused * static_cast<double>(ran.runs);
  }
};

JsonFields<MemoryVerdicts> verdict_fields() {
  using M = MemoryVerdicts;
  return JsonFields<M>()
      .value("runs", "", &M::runs, "all of them")
      .value("fits", "", &M::yes, "those that are said to fit")
      .value("at_risk", "", &M::at_risk, "those that are said to be at risk")
      .value("does_not_fit", "", &M::no, "those that are said not to fit");
}

JsonFields<ClassCoverage> class_fields() {
  using C = ClassCoverage;
  const auto probabilities = [](const C&) { return kCoverageProbabilities; };
  return JsonFields<C>()
      .value("class", "", &C::name, "name of the class")
      .value("steps", "", &C::steps, "number of measured rows, at most 60 steps of a family")
      .value("families", "", &C::families, "number of families of measured runs, or of systems")
      .value("probabilities", "share", probabilities, "probabilities of the intervals")
      .value("inside_by_steps", "share", &C::by_steps, "share of the rows inside each interval")
      .value("inside_by_families", "share", &C::by_families, "mean over the families of each one's share")
      .value("median_half_width", "share", &C::half_width, "median half width of the 80 % interval")
      .value("aim_of_half_width", "share", &C::most_half_width, "largest half width that the validation aims for")
      .value("mean_error", "share", &C::error, "mean of |measured / predicted - 1| over the rows")
      .value("mean_expected_error", "share", &C::expected_error,
             "mean over the steps of the error to expect; 0: not stated")
      .value("missed", "", missed_aim, "what the class misses of the aim");
}

JsonFields<CoveredStep> step_fields() {
  using S = CoveredStep;
  return JsonFields<S>()
      .value("family", "", &S::family, "family of measured runs")
      .value(
          "row", "", [](const S& s) { return s.step.row; }, "name of the run")
      .value(
          "predicted_over_measured", "ratio", [](const S& s) { return std::exp(s.step.left_out); },
          "predicted step time over the measured one")
      .value("half_width", "share", &S::half_width, "half width of its 80 % interval")
      .value("expected_error", "share", &S::expected_error,
             "the error to expect, by the doubt that makes the intervals")
      .value("inside", "true|false", &S::inside, "whether each interval holds the measured step");
}

JsonFields<PlanPairs> pair_fields() {
  using P = PlanPairs;
  return JsonFields<P>()
      .value("pairs", "", &P::pairs, "number of pairs of measured steps of one family, stack, GPU and precision")
      .value("families", "", &P::families, "number of families")
      .value("scale", "", &P::scale, "most probable scale of ln(ratio), Student's t with 4 degrees of freedom")
      .value("inside", "share", &P::inside, "share of the ratios in their 80 % intervals, by weight");
}

/// The answer as JSON has it.
struct CoverageAnswer {
  std::vector<ClassCoverage> classes;
  CoveredVerdicts verdicts;
  std::array<PlanPairs, 2> ratios = {};
  std::vector<CoveredStep> points = {};
};

JsonFields<CoverageAnswer> coverage_fields() {
  using A = CoverageAnswer;
  using V = CoveredVerdicts;
  return JsonFields<A>()
      .list("classes", &A::classes, class_fields(),
            "coverage of the intervals by class of steps, collectives and memory")
      .object("memory_verdicts", &A::verdicts,
              JsonFields<V>()
                  .object("ran", &V::ran, verdict_fields(), "runs that ran, at most 60 of a family")
                  .object("out_of_memory", &V::out_of_memory, verdict_fields(), "runs that ran out of memory"),
              "numbers of measured runs by the verdict on their memory")
      .list("ratios", &A::ratios, pair_fields(),
            "ratios of two measured plans: with equally many tensor ranks, and with others")
      .list("points", &A::points, step_fields(), "the measured steps")
      .when(&A::points, "with --points");
}
const RegisterJsonReference coverage_reference{"validate coverage", "how many measured steps the intervals hold",
                                               coverage_fields};

}  // namespace

int validate_coverage(const ValidationRequest& request) {
  const std::vector<LeftOutStep>& steps = kept_left_out_steps();
  const std::vector<CoveredStep> all = cover_each_family(steps);
  const std::array<PlanPairs, 2> ratios = measured_plan_pairs(steps);
  const std::vector<FamilyMemory> memories = predict_memories(memory_families(), kMostOfFamily);
  const CoveredVerdicts verdicts{memory_verdicts(memories, true, true), memory_verdicts(memories, false, true)};
  std::vector<ClassCoverage> classes = coverage_by_class(all), judged{classes.front()};
  const std::vector<ClassCoverage> collectives = collective_classes();
  judged.push_back(collectives.front());
  classes.insert(classes.end(), collectives.begin(), collectives.end());
  judged.push_back(classes.emplace_back(coverage_of("memory", kMostHalfWidth, cover_each_memory(memories))));
  for (const ClassCoverage& c : engine_classes()) classes.push_back(c);
  TextTable table{"class",    ">rows",       ">families", ">in 50 %",  ">in 80 %",
                  ">in 95 %", ">half width", ">error",    ">expected", "misses"};
  for (const ClassCoverage& c : classes) {
    table.rows.push_back({c.name, fmt::format("{}", c.steps), fmt::format("{}", c.families), shares_of(c, 0),
                          shares_of(c, 1), shares_of(c, 2), fmt::format("±{}", percent(c.half_width)), percent(c.error),
                          c.expected_error > 0 ? percent(c.expected_error) : "", missed_aim(c)});
  }
  const bool holds = verdicts.hold() && std::ranges::all_of(judged, [](const ClassCoverage& c) {
                       return is_within_aim(c.by_steps[kLikelyIndex]) && is_within_aim(c.by_families[kLikelyIndex]);
                     });
  const auto& [out_of_memory, ran] = verdicts;
  const std::string text = fmt::format(
      "intervals against measured step times, collectives and memory; prediction and interval know nothing of a row's "
      "family\n(at most {} steps of a family, spread evenly; each cell: per cent of the rows / mean over "
      "families)\n{}half width: median of the 80 % intervals; error: mean of |measured / predicted - 1| over the rows; "
      "expected:\n"
      "mean of the errors to expect, as run prints them. Aim of a class with {} rows or more: the 80 % intervals hold\n"
      "{:.0f} to {:.0f} % by rows and by families, with a half width of at most 8 % (dense, known stack), 10 % (any "
      "stack),\n25 % (others). The classes \"dense, any stack\", \"more than 1,000 devices\" and \"all steps\" contain "
      "steps of the others.\nA family of collectives is a measured system; anchored: after the mean error of the "
      "system's other rows of such sizes.\nOf memory each source is left out of the interval, not of the prediction.\n"
      "verdicts on memory: of {} runs that ran out of memory {} fit (aim: none), {} are at risk, {} do not fit; of {} "
      "that ran\n{} fit, {} are at risk, {} do not fit (aim: at most one in fifty)\n"
      "ratios of two plans of a family, stack, GPU and precision: beyond unlike terms, their scatter has a scale of "
      "{:.1f} %\nwith equally many tensor ranks ({} pairs of {} families, {:.0f} % in the 80 % interval) and {:.1f} % "
      "with others ({} of {}, {:.0f} %)\n",
      kMostOfFamily, table.text(), kFewestJudged, kLeastCovered * 100, kMostCovered * 100, out_of_memory.runs,
      out_of_memory.yes, out_of_memory.at_risk, out_of_memory.no, ran.runs, ran.yes, ran.at_risk, ran.no,
      ratios[0].scale * 100, ratios[0].pairs, ratios[0].families, ratios[0].inside * 100, ratios[1].scale * 100,
      ratios[1].pairs, ratios[1].families, ratios[1].inside * 100);
  if (!request.csv.empty()) write_atomically(request.csv, DoubtModel::fit(steps).csv());
  report(request, text,
         coverage_fields().json({classes, verdicts, ratios, request.points ? all : std::vector<CoveredStep>()}));
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
