#include "scenarios/src/studies/measured/interval_coverage.hpp"

#include <cmath>
#include <map>

#include "models/fitted/fitting.hpp"

namespace trainyard {
namespace {

struct CoverageClassRule {
  const char* name;
  double most_half_width;
  bool (*holds)(const CoveredStep&);
};

const std::string& network_of(const CoveredStep& c) {
  return c.step.profile.traits[static_cast<std::size_t>(StepTrait::network)];
}
bool is_dense(const CoveredStep& c) { return network_of(c) == "dense decoders" && !c.step.profile.other_vendor; }
bool has_experts(const CoveredStep& c) { return network_of(c).ends_with("mixtures of experts"); }

constexpr CoverageClassRule kClasses[] = {
    {"all", 0.25, [](const CoveredStep&) { return true; }},
    {"dense, known stack", 0.08, [](const CoveredStep& c) { return is_dense(c) && c.known_stack; }},
    {"dense, unknown stack", 0.25, [](const CoveredStep& c) { return is_dense(c) && !c.known_stack; }},
    {"dense, any stack", 0.10, is_dense},
    {"mixtures of experts", 0.25, [](const CoveredStep& c) { return has_experts(c) && !c.step.profile.other_vendor; }},
    {"other networks", 0.25,
     [](const CoveredStep& c) { return !is_dense(c) && !has_experts(c) && !c.step.profile.other_vendor; }},
    {"other vendors", 0.25, [](const CoveredStep& c) { return c.step.profile.other_vendor; }},
    {"more than 1,000 devices", 0.25, [](const CoveredStep& c) { return c.step.profile.devices > 1000; }},
};

ClassCoverage coverage_of(const CoverageClassRule& rule, const std::vector<CoveredStep>& all) {
  ClassCoverage coverage{.name = rule.name, .most_half_width = rule.most_half_width};
  struct Family {
    double steps = 0;
    std::array<double, 3> inside{};
  };
  std::map<std::string, Family> families;
  std::vector<double> widths;
  for (const CoveredStep& c : all) {
    if (!rule.holds(c)) continue;
    Family& family = families[c.step.family];
    ++family.steps;
    for (std::size_t p = 0; p < c.inside.size(); ++p) family.inside[p] += c.inside[p] ? 1 : 0;
    widths.push_back(c.half_width);
    coverage.error += c.error;
    coverage.expected_error += c.expected_error;
  }
  if (widths.empty()) return coverage;
  coverage.steps = widths.size();
  coverage.error /= static_cast<double>(coverage.steps);
  coverage.expected_error /= static_cast<double>(coverage.steps);
  coverage.families = families.size();
  coverage.half_width = median_of(std::move(widths));
  for (const auto& [name, family] : families)
    for (std::size_t p = 0; p < family.inside.size(); ++p) {
      coverage.by_steps[p] += family.inside[p] / static_cast<double>(coverage.steps);
      coverage.by_families[p] += family.inside[p] / family.steps / static_cast<double>(coverage.families);
    }
  return coverage;
}

}  // namespace

std::vector<CoveredStep> cover_each_family(const std::vector<LeftOutStep>& all) {
  std::vector<CoveredStep> covered;
  for (const auto& [family, rows] : thinned_families(all)) {
    const Experience others(all, family);
    const DoubtModel doubt = DoubtModel::fit(all, family);
    for (const LeftOutStep& row : rows) {
      CoveredStep& c = covered.emplace_back(CoveredStep{.step = row, .known_stack = others.has_product(row.profile)});
      const double measured = std::exp(-row.left_out);
      const StepDoubt step_doubt = doubt.doubt(row.profile, others);
      for (std::size_t p = 0; p < c.inside.size(); ++p) {
        const StepRange range = doubt.range(step_doubt, kCoverageProbabilities[p]);
        c.inside[p] = range.low <= measured && measured <= range.high;
      }
      c.half_width = doubt.range(step_doubt, kLikely).half_width();
      c.error = std::abs(measured - 1);
      c.expected_error = doubt.expected_error(step_doubt);
    }
  }
  return covered;
}

std::vector<ClassCoverage> coverage_by_class(const std::vector<CoveredStep>& all) {
  std::vector<ClassCoverage> classes;
  for (const CoverageClassRule& rule : kClasses) classes.push_back(coverage_of(rule, all));
  return classes;
}

}  // namespace trainyard
