#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/studies/measured/left_out.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::json;

// The limit of the mean error over all families, each counted once. It is just above the present error, so that the
// command fails if a change makes the error worse. The goal is lower.
constexpr double kMostLeftOut = 0.06;
constexpr double kGoalLeftOut = 0.05;

std::string words_of(const RefittedConstant& c) {
  return c.refitted.empty() ? fmt::format("  {}: {}; no other family determines it: left out\n", c.name, c.value)
                            : fmt::format("  {}: {}; fitted to the others {}\n", c.name, c.value, c.refitted);
}

}  // namespace

std::vector<MeasuredFamily> families_of_fit() { return measured_families({kFittedSets.begin(), kFittedSets.end()}); }

int validate_left_out(const ValidationRequest& request) {
  const std::vector<MeasuredFamily> families = measured_families({request.set}, request.families);
  LeftOutOptions options;
  for (const MeasuredFamily& family : families) options.families.push_back(family.name);
  const std::vector<RefittedFamily> all =
      request.set == kUnfittedSet ? predict_unfitted(families) : leave_out_each(families_of_fit(), options);
  TextTable table{"family", ">n", ">fitted to it too", ">left out", ">worst", ">signed mean", ">rank"};
  std::string constants;
  Json sets = Json::array();
  double fitted = 0, left_out_sum = 0, determined_sum = 0;
  int count = 0, determined = 0;
  for (const RefittedFamily& family : all) {
    const auto in_sample = family.now.step_times(), left_out = family.refitted.step_times();
    if (!in_sample || !left_out) continue;
    fitted += in_sample->mean_abs;
    left_out_sum += left_out->mean_abs;
    ++count;
    if (std::ranges::none_of(family.constants, [](const auto& c) { return c.refitted.empty(); }))
      ++determined, determined_sum += left_out->mean_abs;
    table.rows.push_back({family.now.name, fmt::format("{}", left_out->n), percent(in_sample->mean_abs),
                          percent(left_out->mean_abs), percent(left_out->worst_abs),
                          signed_percent(left_out->signed_mean), fmt::format("{:.3f}", left_out->rank_correlation)});
    if (!family.constants.empty()) constants += family.now.name + "\n";
    Json own = Json::array();
    for (const RefittedConstant& c : family.constants) {
      constants += words_of(c);
      own.push_back(
          {{"constant", c.name}, {"value", c.value}, {"left_out", c.refitted.empty() ? Json() : Json(c.refitted)}});
    }
    sets.push_back({{"family", family.now.name},
                    {"in_sample", to_json(*in_sample, request.points)},
                    {"left_out", to_json(*left_out, request.points)},
                    {"constants", own}});
  }
  const double mean_fitted = fitted / std::max(1, count), mean_left = left_out_sum / std::max(1, count);
  const bool judged = request.set == "training" && request.families.empty(),
             holds = !judged || mean_left <= kMostLeftOut;
  std::string text = fmt::format(
      "step times of measured training runs, with constants that were fitted without their family\n{}mean over {} "
      "families, each counted once: {}, left out of the fit {}{}\n",
      table.text(), count, percent(mean_fitted), percent(mean_left),
      judged ? fmt::format(" (limit {}: {}; goal {}: {})", percent(kMostLeftOut), holds ? "holds" : "FAILS",
                           percent(kGoalLeftOut), mean_left <= kGoalLeftOut ? "reached" : "missed")
             : "");
  if (determined > 0 && determined < count)
    text += fmt::format(
        "the {} families all of whose constants other families determine: {}; the {} with a constant of their own: "
        "{}\n",
        determined, percent(determined_sum / determined), count - determined,
        percent((left_out_sum - determined_sum) / (count - determined)));
  text += constants.empty()
              ? "\nno constant is fitted to these families: both errors are those of the catalog's constants\n"
              : "\nconstants of each family, in the catalog and without its runs\n" + constants;
  if (!request.csv.empty()) write_atomically(request.csv, left_out_csv(request.set, left_out_steps(request.set, all)));
  report(request, text, Json{{"families", sets}, {"mean_in_sample", mean_fitted}, {"mean_left_out", mean_left}});
  return holds ? kGood : kFailsLimit;
}

}  // namespace trainyard
