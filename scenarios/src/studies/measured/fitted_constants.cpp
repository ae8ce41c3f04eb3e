#include "scenarios/src/studies/measured/fitted_constants.hpp"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <map>

#include "models/reading/catalog.hpp"

namespace trainyard {

std::string FittedConstant::name() const { return fmt::format("{} {}: {}", kind, entries.front(), key); }

std::vector<FigureTrial> FittedConstant::trials(const std::string& instead) const {
  std::vector<FigureTrial> all;
  for (const std::string& entry : entries) all.push_back({kind, entry, key, instead});
  return all;
}

std::vector<FittedConstant> fitted_constants() {
  constexpr std::string_view kFit = "fit: ";
  const Catalog catalog;
  std::vector<FittedConstant> all;
  for (const char* kind : {"gpu", "attention", "stack"})
    for (const std::string& name : catalog.names(kind))
      // Only the entry's own figures: inherited ones belong to the base entry.
      for (const FigureSource& figure : figure_sources(catalog.entry(kind, name, {}), "")) {
        if (!figure.source.starts_with(kFit)) continue;
        const std::string key = figure.figure.substr(figure.figure.find_first_not_of(": "));
        const std::string source = figure.source.substr(kFit.size());
        const auto existing = std::find_if(all.begin(), all.end(), [&](const FittedConstant& c) {
          return c.kind == kind && c.key == key && c.value == figure.value && c.source == source;
        });
        if (existing != all.end()) {
          existing->entries.push_back(name);
          continue;
        }
        const bool table = source.find(".csv") != std::string::npos || source.find("horovod") != std::string::npos;
        all.push_back({kind, {name}, key, figure.value, source, table});
      }
  return all;
}

std::vector<std::string> entry_with_bases(const std::string& kind, const std::string& name) {
  const Catalog catalog;
  const std::vector<std::string> names = catalog.names(kind);
  std::vector<std::string> chain;
  for (std::string next = name; std::find(names.begin(), names.end(), next) != names.end();) {
    if (std::find(chain.begin(), chain.end(), next) != chain.end()) break;
    chain.push_back(next);
    const Node entry = catalog.entry(kind, next, {});
    const Node* base = entry.find("base");
    if (!base || base->kind != Node::Kind::scalar) break;
    next = base->scalar;
  }
  return chain;
}

namespace {

constexpr double kRowSpread = 0.03;     // standard deviation of log(predicted / measured), per row and per family
constexpr double kOutlier = 2;          // errors above this times the deviation are outliers
constexpr double kLessUncertain = 0.9;  // factor on the standard deviation of a constant that rows determine
constexpr int kReweightings = 30;

/// Rows by family.
using RowsOfFamilies = std::map<std::size_t, std::vector<const ConstantRow*>>;

/// Second derivatives of the negative log probability, and first derivatives at zero change.
struct RefitEquations {
  Eigen::MatrixXd information;
  Eigen::VectorXd pull;
};

double error_at(const ConstantRow& row, const Eigen::VectorXd& change) {
  return row.error + Eigen::Map<const Eigen::VectorXd>(row.slope.data(), change.size()).dot(change);
}

/// A family's rows have the covariance s2 (1/w + 1 1'), whose inverse is (w - w w' / (1 + sum of w)) / s2.
RefitEquations equations(const RowsOfFamilies& families, const Eigen::VectorXd& change) {
  const Eigen::Index n = change.size();
  RefitEquations all{Eigen::MatrixXd::Zero(n, n), Eigen::VectorXd::Zero(n)};
  for (const auto& [family, rows] : families) {
    Eigen::VectorXd slopes = Eigen::VectorXd::Zero(n);
    double errors = 0, weights = 1;
    for (const ConstantRow* row : rows) {
      const double w = std::min(1.0, kOutlier * kRowSpread / std::max(1e-12, std::abs(error_at(*row, change))));
      const Eigen::Map<const Eigen::VectorXd> slope(row->slope.data(), n);
      all.information += w * slope * slope.transpose();
      all.pull += w * row->error * slope;
      slopes += w * slope;
      errors += w * row->error;
      weights += w;
    }
    all.information -= slopes * slopes.transpose() / weights;
    all.pull -= slopes * errors / weights;
  }
  all.information /= kRowSpread * kRowSpread;
  all.pull /= kRowSpread * kRowSpread;
  return all;
}

}  // namespace

std::vector<ConstantChange> refit_constants(const std::vector<double>& without, const std::vector<ConstantRow>& rows) {
  const auto n = static_cast<Eigen::Index>(without.size());
  if (n == 0) return {};
  RowsOfFamilies families;
  for (const ConstantRow& row : rows) families[row.family].push_back(&row);
  const Eigen::Map<const Eigen::VectorXd> expected(without.data(), n);
  const double prior = 1 / (kConstantSpread * kConstantSpread);
  Eigen::VectorXd change = expected;
  Eigen::MatrixXd information;
  for (int round = 0; round < kReweightings; ++round) {
    RefitEquations system = equations(families, change);
    information = system.information;
    information.diagonal().array() += prior;
    change = information.ldlt().solve(prior * expected - system.pull);
  }
  const Eigen::MatrixXd covariance = information.ldlt().solve(Eigen::MatrixXd::Identity(n, n));
  std::vector<ConstantChange> changes;
  for (Eigen::Index k = 0; k < n; ++k) {
    const bool is_determined = std::sqrt(covariance(k, k)) < kLessUncertain * kConstantSpread;
    changes.push_back({is_determined, is_determined ? change[k] : expected[k]});
  }
  return changes;
}

}  // namespace trainyard
