#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// A constant that a scale multiplies.
struct ScaledKey {
  std::string path;  ///< dotted path in the scenario
  double value = 0;  ///< value in the catalog, in `unit`
  double least = 0, most = 0;
  bool is_rate = false;  ///< a larger value is faster
  const char* unit = "";
};

/// A factor on times that several constants share.
struct ScaleRule {
  std::string words;
  double prior = 0;  ///< standard deviation of the factor's logarithm before the measurements
  std::vector<ScaledKey> keys;
};

/// Returns the overrides that multiply times by e^log, for each scale with a logarithm other than 0.
Overrides scaled_sets(const std::vector<ScaleRule>&, const std::vector<double>& logs);

/// Logarithms of scales at one trial of a fit.
using ScaleLogs = std::vector<double>;
/// Returns ln(predicted / measured) of each row, for each of these trials.
using ErrorsOfTrials = std::function<std::vector<std::vector<double>>(const std::vector<ScaleLogs>&)>;

struct ScaleFit {
  ScaleLogs logs;
  std::vector<double> spreads;  ///< standard deviations of `logs`
};

struct ScaleFitOptions {
  double row_error = 0.08;  ///< standard deviation of ln(measured / predicted) of a row
  double most_rows = 1e9;   ///< larger numbers of rows together weigh as much as this number
  int rounds = 2;           ///< number of linearizations
};

/// Finds the most probable scales. Their logarithms are normal around 0 with the priors of `rules`. Errors of rows
/// follow Student's t with 4 degrees of freedom, so that an odd row counts little. Each round linearizes the errors by
/// trials that move one scale each, and solves by re-weighted least squares. Deterministic.
ScaleFit fit_scales(const std::vector<ScaleRule>& rules, const ErrorsOfTrials&, const ScaleFitOptions& = {});

/// Returns true if measurements determine a scale: less than nine tenths of its prior's spread remain.
bool is_determined_scale(double prior, double spread);
/// Sets the logarithm of each scale that is not determined to 0.
void forget_undetermined(const std::vector<ScaleRule>&, ScaleFit&);

/// Returns the misfit of an error: twice the negative logarithm of the density of Student's t, without constants.
double misfit_of_error(double error, double row_error);

/// The error log(predicted / measured) of one measured row with the current constants, and its derivatives.
struct ConstantRow {
  std::size_t family = 0;
  double error = 0;
  std::vector<double> slope;  ///< d error / d log(constant)
};

/// The result of the refit of one constant.
struct ConstantChange {
  bool is_determined = false;  ///< the rows determine it; false: it keeps its prior value
  double log = 0;              ///< change of its logarithm
};

/// Standard deviation of the prior of a constant's logarithm.
constexpr double kConstantSpread = 0.3;

/// Refits constants to measured rows whose errors depend linearly on the logarithms of the constants. `without`: for
/// each constant, the change that has the same effect as leaving it out; it is the mean of the prior. Returns the most
/// probable changes. A row has an error of 3 %, and all rows of a family share a further error of 3 %. Errors above 6 %
/// count linearly instead of squared. Rows determine a constant if they reduce its uncertainty by more than a tenth.
std::vector<ConstantChange> refit_constants(const std::vector<double>& without, const std::vector<ConstantRow>& rows);

}  // namespace trainyard
