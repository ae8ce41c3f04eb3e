#include "scenarios/src/studies/measured/interval_coverage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "models/fitted/fitting.hpp"
#include "sim/observers/progress.hpp"
#include "sim/process/job.hpp"

namespace trainyard {
namespace {

struct CoverageClassRule {
  const char* name;
  double most_half_width;
  bool (*holds)(const CoveredStep&);
};

const std::string& network_of(const CoveredStep& c) { return c.step.profile.trait(StepTrait::network); }
bool is_dense(const CoveredStep& c) { return network_of(c) == "dense decoders" && !c.step.profile.other_vendor; }
bool has_experts(const CoveredStep& c) { return network_of(c).ends_with("mixtures of experts"); }

constexpr CoverageClassRule kClasses[] = {
    {"all steps", 0.25, [](const CoveredStep&) { return true; }},
    {"dense, known stack", 0.08, [](const CoveredStep& c) { return is_dense(c) && c.known_stack; }},
    {"dense, unknown stack", 0.25, [](const CoveredStep& c) { return is_dense(c) && !c.known_stack; }},
    {"dense, any stack", 0.10, is_dense},
    {"mixtures of experts", 0.25, [](const CoveredStep& c) { return has_experts(c) && !c.step.profile.other_vendor; }},
    {"other networks", 0.25,
     [](const CoveredStep& c) { return !is_dense(c) && !has_experts(c) && !c.step.profile.other_vendor; }},
    {"other vendors", 0.25, [](const CoveredStep& c) { return c.step.profile.other_vendor; }},
    {"more than 1,000 devices", 0.25, [](const CoveredStep& c) { return c.step.profile.devices > 1000; }},
};

ClassCoverage coverage_of_rule(const CoverageClassRule& rule, const std::vector<CoveredStep>& all) {
  std::vector<CoveredRow> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows), rule.holds);
  return coverage_of(rule.name, rule.most_half_width, rows);
}

}  // namespace

DoubtWithoutFamily::DoubtWithoutFamily(const std::vector<LeftOutStep>& all, const std::string& family)
    : model_(DoubtModel::fit(all, family)), others_(all, family) {}

CoveredRow covered_row(const std::string& family, double measured, const std::function<StepRange(double)>& range) {
  CoveredRow row{family};
  for (std::size_t p = 0; p < row.inside.size(); ++p) {
    const StepRange interval = range(kCoverageProbabilities[p]);
    row.inside[p] = interval.low <= measured && measured <= interval.high;
  }
  row.half_width = range(kLikely).half_width();
  row.error = std::abs(measured - 1);
  return row;
}

ClassCoverage coverage_of(const std::string& name, double most_half_width, const std::vector<CoveredRow>& rows) {
  ClassCoverage coverage{.name = name, .most_half_width = most_half_width};
  struct Family {
    double rows = 0;
    std::array<double, 3> inside{};
  };
  std::map<std::string, Family> families;
  std::vector<double> widths;
  for (const CoveredRow& row : rows) {
    Family& family = families[row.family];
    ++family.rows;
    for (std::size_t p = 0; p < row.inside.size(); ++p) family.inside[p] += row.inside[p] ? 1 : 0;
    widths.push_back(row.half_width);
    coverage.error += row.error;
    coverage.expected_error += row.expected_error;
  }
  if (widths.empty()) return coverage;
  coverage.steps = widths.size();
  coverage.error /= static_cast<double>(coverage.steps);
  coverage.expected_error /= static_cast<double>(coverage.steps);
  coverage.families = families.size();
  coverage.half_width = median_of(std::move(widths));
  for (const auto& [key, family] : families)
    for (std::size_t p = 0; p < family.inside.size(); ++p) {
      coverage.by_steps[p] += family.inside[p] / static_cast<double>(coverage.steps);
      coverage.by_families[p] += family.inside[p] / family.rows / static_cast<double>(coverage.families);
    }
  return coverage;
}

std::vector<CoveredStep> cover_each_family(const std::vector<LeftOutStep>& all) {
  std::vector<CoveredStep> covered;
  ProgressLine progress;
  const auto families = thinned_families(all);
  std::size_t begun = 0;
  for (const auto& [family, rows] : families) {
    end_if_interrupted();
    progress.show(fmt::format("intervals of steps: family {} of {}", ++begun, families.size()));
    const DoubtWithoutFamily without(all, family);
    for (const LeftOutStep& row : rows) {
      const StepDoubt doubt = without.doubt(row.profile);
      const auto range = [&](double probability) { return without.model().range(doubt, probability); };
      CoveredStep& c = covered.emplace_back(CoveredStep{covered_row(family, std::exp(-row.left_out), range), row});
      c.known_stack = without.others().has_product(row.profile);
      c.expected_error = without.model().expected_error(doubt);
    }
  }
  return covered;
}

std::vector<ClassCoverage> coverage_by_class(const std::vector<CoveredStep>& all) {
  std::vector<ClassCoverage> classes;
  for (const CoverageClassRule& rule : kClasses) classes.push_back(coverage_of_rule(rule, all));
  return classes;
}

}  // namespace trainyard
