#include "scenarios/src/studies/measured/ratio_doubt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "models/fitted/fitting.hpp"
#include "models/fitted/measured_family.hpp"
#include "models/reading/shipped_files.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

/// Half width of the 80 % interval of Student's t with 4 degrees of freedom.
constexpr double kStudentLikely = 1.533206;

/// Two measured steps of one family.
struct PlanPair {
  double error = 0;     ///< ln of the ratio of the steps, measured over predicted
  double variance = 0;  ///< variance by unlike terms
  double weight = 1;
};

/// Returns twice the negative logarithm of the likelihood of the pairs.
double misfit(const std::vector<PlanPair>& pairs, double scale) {
  double sum = 0;
  for (const PlanPair& pair : pairs) {
    const double variance = scale * scale + pair.variance;
    sum += pair.weight * (std::log(variance) + 5 * std::log1p(pair.error * pair.error / variance / 4));
  }
  return sum;
}

/// Returns the most probable scale of the pairs and how many of them lie in their intervals.
PlanPairs fit_pairs(const std::vector<PlanPair>& pairs) {
  PlanPairs fit{.pairs = pairs.size()};
  if (pairs.empty()) return fit;
  double log = std::log(kSpreadOfPlans);
  pattern_search({&log, 1}, [&] { return misfit(pairs, std::exp(log)); });
  fit.scale = std::exp(log);
  double weights = 0;
  for (const PlanPair& pair : pairs) {
    weights += pair.weight;
    const double scale = std::sqrt(fit.scale * fit.scale + pair.variance);
    fit.inside += std::abs(pair.error) <= kStudentLikely * scale ? pair.weight : 0;
  }
  fit.inside /= weights;
  return fit;
}

/// Returns the number of tensor ranks of each measured step, by family and row.
std::map<std::pair<std::string, std::string>, int> tensor_ranks(const std::vector<LeftOutStep>& steps) {
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (const LeftOutStep& step : steps) ranks[{step.family, step.row}] = 0;
  for (const char* set : {"training", "training-2026", "mlperf", "mlperf-v6"})
    for (const auto& file : shipped_yaml_files(std::string("scenarios/measured/") + set)) {
      const MeasuredFamily family(file);
      std::vector<std::size_t> rows;
      for (std::size_t row = 0; row < family.ids.size(); ++row)
        if (ranks.contains({family.name, family.ids[row]})) rows.push_back(row);
      const std::vector<int> found = all_in_parallel(rows.size(), processors(), [&](std::size_t i) {
        return read_scenario(family.scenario(rows[i]), family.ids[rows[i]]).plan.mesh.widest(Axis::tensor);
      });
      for (std::size_t i = 0; i < rows.size(); ++i) ranks[{family.name, family.ids[rows[i]]}] = found[i];
    }
  return ranks;
}

}  // namespace

double student_scale() { return std::log(DoubtModel::shipped().range({.spread = 1}, kLikely).high) / kStudentLikely; }

double unshared_variance(const StepDoubt& a, const StepDoubt& b) {
  double variance = 0;
  const auto shared = [](const std::string& name, const StepDoubt& other) {
    return name != kEstimateTerm && other.terms.contains(name);
  };
  for (const auto& [name, spread] : a.terms)
    variance += std::pow(shared(name, b) ? spread - b.terms.at(name) : spread, 2);
  for (const auto& [name, spread] : b.terms)
    if (!shared(name, a)) variance += spread * spread;
  return variance * std::pow(student_scale(), 2);
}

double scale_of_ratio(const StepDoubt& a, const StepDoubt& b) {
  const bool shares_machine = std::ranges::all_of(
      a.terms, [&b](const auto& term) { return !term.first.starts_with(kModelTerm) || b.terms.contains(term.first); });
  const double plans = shares_machine ? (a.tensor == b.tensor ? kSpreadOfPlans : kSpreadOfTensorDegrees) : 0;
  return std::min(student_scale() * std::hypot(a.spread, b.spread), std::sqrt(unshared_variance(a, b) + plans * plans));
}

double half_width_of_ratio(const StepDoubt& a, const StepDoubt& b) {
  return std::sinh(kStudentLikely * scale_of_ratio(a, b));
}

double probability_of_longer(double first, const StepDoubt& a, double second, const StepDoubt& b) {
  const double t = std::log(second / first) / scale_of_ratio(a, b);
  // The distribution function of Student's t with 4 degrees of freedom.
  const double u = 1 + t * t / 4;
  return 0.5 + 0.375 * t / std::sqrt(u) * (1 - t * t / (12 * u));
}

double spread_of_anchor(std::size_t plans, double squares) {
  constexpr double kPriorPlans = 4;
  const auto count = static_cast<double>(plans);
  const double all = std::pow(DoubtModel::shipped().spread_of("any"), 2);
  // Two plans differ by the errors of both.
  const double of_plan = std::min(all, std::pow(kSpreadOfPlans / student_scale(), 2) / 2), shared = all - of_plan;
  const double measured = (kPriorPlans * of_plan + squares) / (kPriorPlans + count);
  return std::sqrt(measured + shared * measured / (measured + count * shared));
}

std::array<PlanPairs, 2> measured_plan_pairs(const std::vector<LeftOutStep>& all) {
  const auto families = thinned_families(all);
  std::vector<LeftOutStep> steps;
  for (const auto& [name, rows] : families) steps.insert(steps.end(), rows.begin(), rows.end());
  const auto ranks = tensor_ranks(steps);
  std::array<std::vector<PlanPair>, 2> pairs;
  std::array<std::size_t, 2> counts{};
  ProgressLine progress;
  std::size_t begun = 0;
  for (const auto& [name, rows] : families) {
    end_if_interrupted();
    progress.show(fmt::format("ratios of plans: family {} of {}", ++begun, families.size()));
    const Experience others(all, name);
    std::map<StepTraits, std::vector<const LeftOutStep*>> groups;
    for (const LeftOutStep& row : rows) groups[row.profile.traits].push_back(&row);
    std::array<bool, 2> has_pairs{};
    for (const auto& [traits, group] : groups) {
      std::vector<StepDoubt> doubts;
      for (const LeftOutStep* row : group) doubts.push_back(DoubtModel::shipped().doubt(row->profile, others));
      std::array<std::size_t, 2> begins{pairs[0].size(), pairs[1].size()};
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
          const bool other_tensor = ranks.at({name, group[i]->row}) != ranks.at({name, group[j]->row});
          pairs[other_tensor ? 1 : 0].push_back(
              {group[j]->left_out - group[i]->left_out, unshared_variance(doubts[i], doubts[j])});
        }
      for (std::size_t k = 0; k < pairs.size(); ++k) {
        const std::size_t added = pairs[k].size() - begins[k];
        has_pairs[k] = has_pairs[k] || added > 0;
        for (std::size_t i = begins[k]; i < pairs[k].size(); ++i)
          pairs[k][i].weight = std::sqrt(static_cast<double>(group.size())) / static_cast<double>(added);
      }
    }
    for (std::size_t k = 0; k < counts.size(); ++k) counts[k] += has_pairs[k] ? 1 : 0;
  }
  std::array<PlanPairs, 2> fits{fit_pairs(pairs[0]), fit_pairs(pairs[1])};
  for (std::size_t k = 0; k < fits.size(); ++k) fits[k].families = counts[k];
  return fits;
}

}  // namespace trainyard
