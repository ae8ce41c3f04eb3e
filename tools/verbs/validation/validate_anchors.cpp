#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/measured/anchor.hpp"
#include "scenarios/src/studies/measured/step_doubt.hpp"
#include "sim/error.hpp"
#include "sim/stable_sort.hpp"
#include "sim/units.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kAnchorSteps = 2, kFewestRows = 4;
constexpr double kGoalAnchored = 0.04;

/// Sorts measured steps by the device-seconds that one of them takes, the cheapest first: what a user would measure.
void sort_by_cost(std::vector<AnchorStep>& steps) {
  std::vector<std::pair<double, AnchorStep>> priced;
  for (AnchorStep& step : steps) {
    const double devices = read_scenario(step.document, step.id).ranks();
    priced.emplace_back(devices * step.measured, std::move(step));
  }
  sort_stably(priced, [](const auto& a, const auto& b) { return a.first < b.first; });
  steps.clear();
  for (auto& [cost, step] : priced) steps.push_back(std::move(step));
}

/// A family that was anchored by some of its steps.
struct AnchoredFamily {
  std::string name;
  std::size_t judged = 0;
  double left_out = 0, before = 0, after = 0;  ///< mean errors of the other steps
  double inside = 0;  ///< share of the other steps that lie in the 80 % interval of the anchored stack
};

/// Anchors a family by its first `kAnchorSteps` steps and judges the anchor by the others.
AnchoredFamily anchor_by_first_steps(const std::string& name, std::vector<AnchorStep> steps) {
  std::vector<AnchorStep> judged(steps.begin() + kAnchorSteps, steps.end());
  steps.resize(kAnchorSteps);
  const Anchor anchor = anchor_steps(std::move(steps), std::move(judged));
  AnchoredFamily family{.name = name, .judged = anchor.judged.size()};
  std::map<std::string, double> left_out;
  for (const LeftOutStep& step : kept_left_out_steps())
    if (step.family == name) left_out[step.row] = std::abs(std::expm1(step.left_out));
  double count = 0;
  for (const AnchorStep& step : anchor.judged) {
    const StepRange range = DoubtBasis(step.profile, anchor.basis).range();
    const double ratio = step.measured / step.after;
    family.inside += (ratio >= range.low && ratio <= range.high ? 1.0 : 0.0) / static_cast<double>(family.judged);
    if (const auto found = left_out.find(step.id); found != left_out.end()) family.left_out += found->second, ++count;
  }
  family.left_out = count > 0 ? family.left_out / count : 0;
  family.before = Anchor::mean_error(anchor.judged, &AnchorStep::error_before);
  family.after = Anchor::mean_error(anchor.judged, &AnchorStep::error_after);
  return family;
}

JsonFields<std::vector<AnchoredFamily>> anchors_fields() {
  using F = AnchoredFamily;
  const auto family =
      JsonFields<F>()
          .value("family", "", &F::name, "name of the family")
          .value("judged", "", &F::judged, "steps that the anchor did not use")
          .value("left_out", "share", &F::left_out, "their mean error by constants that were fitted without the family")
          .value("before", "share", &F::before, "their mean error by the catalog's constants")
          .value("after", "share", &F::after, "their mean error by the stack that is anchored by two steps")
          .value("inside", "share", &F::inside, "share of them in the 80 % interval of the anchored stack");
  return JsonFields<std::vector<F>>().list("families", std::identity{}, family,
                                           "families of measured runs with at least four steps on one machine");
}
const RegisterJsonReference anchors_reference{"validate anchors", "families anchored by two of their steps",
                                              anchors_fields};

}  // namespace

int validate_anchors(const ValidationRequest& request) {
  std::vector<AnchoredFamily> families;
  std::string left_out, refusal;
  for (const char* set : {"training", "training-2026", "mlperf", "mlperf-v6"})
    for (const auto& file : shipped_yaml_files(std::string("scenarios/measured/") + set)) {
      const MeasuredFamily measured(file);
      if (measured.ids.size() < kFewestRows) continue;
      try {
        std::vector<AnchorStep> steps = read_anchor_steps({}, "", file);
        if (!request.first) sort_by_cost(steps);
        families.push_back(anchor_by_first_steps(measured.name, std::move(steps)));
      } catch (const UserError& e) {  // rows of several machines, or a plan that is refused
        refusal = e.what();
        left_out += (left_out.empty() ? "" : ", ") + measured.name;
      }
    }
  if (families.empty()) throw UserError("no family can be anchored; the last error: " + refusal);
  TextTable table{"family", ">steps", ">left out", ">before", ">anchored", ">in 80 %"};
  AnchoredFamily mean{.name = "mean"};
  const auto n = static_cast<double>(families.size());
  for (const AnchoredFamily& f : families) {
    table.rows.push_back({f.name, fmt::format("{}", f.judged), percent(f.left_out), percent(f.before), percent(f.after),
                          percent(f.inside, 0)});
    mean.left_out += f.left_out / n;
    mean.before += f.before / n;
    mean.after += f.after / n;
    mean.inside += f.inside / n;
  }
  table.rows.push_back({"mean, each family once", "", percent(mean.left_out), percent(mean.before), percent(mean.after),
                        percent(mean.inside, 0)});
  const std::string text = fmt::format(
      "each family anchored by the {} steps {}; mean errors of its other steps\n{}left out: by constants that were "
      "fitted without the family; before: by the catalog's, some of which were fitted\n"
      "to it, and from which the anchor starts; in 80 %: share in the interval of the anchored stack\n"
      "goal: a mean of {}: {}\n{}",
      kAnchorSteps, request.first ? "that come first" : "that took the fewest GPU-seconds", table.text(),
      percent(kGoalAnchored, 0), mean.after <= kGoalAnchored ? "reached" : "missed",
      left_out.empty() ? ""
                       : "not anchored, because their rows are of several machines or refused: " + left_out + "\n");
  report(request, text, anchors_fields().json(families));
  return mean.after <= mean.left_out ? kGood : kFailsLimit;
}

}  // namespace trainyard
