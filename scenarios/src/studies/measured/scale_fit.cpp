#include "scenarios/src/studies/measured/scale_fit.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <map>

namespace trainyard {
namespace {

constexpr double kFreedom = 4;           // degrees of freedom of Student's t
constexpr double kTrialMove = 0.1;       // change of a logarithm for a derivative
constexpr double kFarthestMove = 1.5;    // largest change of a logarithm from the catalog's value
constexpr double kStillUncertain = 0.9;  // share of the prior's spread from which on a scale is not determined
constexpr int kScaleReweightings = 25;

/// Errors of rows, and their derivatives with respect to the logarithm of each scale.
struct LinearizedErrors {
  Eigen::VectorXd errors;
  Eigen::MatrixXd slopes;
};

LinearizedErrors linearized_errors(const ErrorsOfTrials& errors_of, const Eigen::VectorXd& logs) {
  std::vector<ScaleLogs> trials(static_cast<std::size_t>(logs.size()) + 1, ScaleLogs(logs.begin(), logs.end()));
  for (std::size_t k = 0; k + 1 < trials.size(); ++k) trials[k + 1][k] += kTrialMove;
  const std::vector<std::vector<double>> errors = errors_of(trials);
  const auto rows = static_cast<Eigen::Index>(errors.front().size());
  LinearizedErrors result{Eigen::VectorXd(rows), Eigen::MatrixXd(rows, logs.size())};
  for (Eigen::Index i = 0; i < rows; ++i) {
    const auto row = static_cast<std::size_t>(i);
    result.errors[i] = errors.front()[row];
    for (Eigen::Index k = 0; k < logs.size(); ++k)
      result.slopes(i, k) = (errors[static_cast<std::size_t>(k) + 1][row] - errors.front()[row]) / kTrialMove;
  }
  return result;
}

Eigen::MatrixXd covariance_of(const Eigen::MatrixXd& information) {
  return information.ldlt().solve(Eigen::MatrixXd::Identity(information.rows(), information.cols()));
}

}  // namespace

Overrides scaled_sets(const std::vector<ScaleRule>& rules, const std::vector<double>& logs) {
  Overrides sets;
  for (std::size_t k = 0; k < rules.size(); ++k) {
    if (logs[k] == 0) continue;
    for (const ScaledKey& key : rules[k].keys) {
      if (key.value <= 0) continue;
      const double value = key.value * std::exp(key.is_rate ? -logs[k] : logs[k]);
      sets.emplace_back(key.path, fmt::format("{:.4g}{}", std::clamp(value, key.least, key.most), key.unit));
    }
  }
  return sets;
}

ScaleFit fit_scales(const std::vector<ScaleRule>& rules, const ErrorsOfTrials& errors_of,
                    const ScaleFitOptions& options) {
  const auto n = static_cast<Eigen::Index>(rules.size());
  Eigen::VectorXd logs = Eigen::VectorXd::Zero(n), spreads = logs;
  for (int round = 0; round < options.rounds; ++round) {
    const auto [errors, slopes] = linearized_errors(errors_of, logs);
    const double row_weight = std::min(1.0, options.most_rows / static_cast<double>(errors.size()));
    const Eigen::VectorXd start = logs;
    Eigen::MatrixXd information;
    for (int iteration = 0; iteration < kScaleReweightings; ++iteration) {
      information = Eigen::MatrixXd::Zero(n, n);
      Eigen::VectorXd pull = Eigen::VectorXd::Zero(n);
      for (Eigen::Index i = 0; i < errors.size(); ++i) {
        const double error = errors[i] + slopes.row(i).dot(logs - start);
        const double weight =
            row_weight * (kFreedom + 1) / (kFreedom * options.row_error * options.row_error + error * error);
        information += weight * slopes.row(i).transpose() * slopes.row(i);
        pull += weight * (errors[i] - slopes.row(i).dot(start)) * slopes.row(i).transpose();
      }
      for (Eigen::Index k = 0; k < n; ++k)
        information(k, k) += 1 / std::pow(rules[static_cast<std::size_t>(k)].prior, 2);
      logs = -information.ldlt().solve(pull);
    }
    logs = logs.cwiseMax(-kFarthestMove).cwiseMin(kFarthestMove);
    spreads = covariance_of(information).diagonal().cwiseSqrt();
  }
  return {{logs.begin(), logs.end()}, {spreads.begin(), spreads.end()}};
}

bool is_determined_scale(double prior, double spread) { return spread < kStillUncertain * prior; }

void forget_undetermined(const std::vector<ScaleRule>& rules, ScaleFit& fit) {
  for (std::size_t k = 0; k < rules.size(); ++k)
    if (!is_determined_scale(rules[k].prior, fit.spreads[k])) fit.logs[k] = 0;
}

double misfit_of_error(double error, double row_error) {
  return (kFreedom + 1) * std::log1p(error * error / (kFreedom * row_error * row_error));
}

namespace {

constexpr double kRowSpread = 0.03;     // standard deviation of log(predicted / measured), per row and per family
constexpr double kOutlier = 2;          // errors above this times the deviation are outliers
constexpr double kLessUncertain = 0.9;  // factor on the standard deviation of a constant that rows determine
constexpr int kReweightings = 30;

/// Rows, indexed by family.
using RowsOfFamilies = std::map<std::size_t, std::vector<const ConstantRow*>>;

/// Second derivatives of the negative log probability, and first derivatives at zero change.
struct RefitEquations {
  Eigen::MatrixXd information;
  Eigen::VectorXd pull;
};

double error_at(const ConstantRow& row, const Eigen::VectorXd& change) {
  return row.error + Eigen::Map<const Eigen::VectorXd>(row.slope.data(), change.size()).dot(change);
}

/// Sums the equations of all families. With the weights w of its rows, the errors of a family have the covariance
/// s2 (1/w + 1 1'), whose inverse is (w - w w' / (1 + sum of w)) / s2.
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
  const Eigen::MatrixXd covariance = covariance_of(information);
  std::vector<ConstantChange> changes;
  for (Eigen::Index k = 0; k < n; ++k) {
    const bool is_determined = std::sqrt(covariance(k, k)) < kLessUncertain * kConstantSpread;
    changes.push_back({is_determined, is_determined ? change[k] : expected[k]});
  }
  return changes;
}

}  // namespace trainyard
