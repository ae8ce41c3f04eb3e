#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "scenarios/src/answer/post_training_result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace trainyard {

/// The measured figures of engines that answer prompts: the time from token to token and to the first token with a
/// constant number of prompts at a time, and the tokens a second when all prompts come at once.
enum class GenerationFigure : std::uint8_t { token, first_token, throughput };
/// Names of the figures in tables and in words.
constexpr std::array<const char*, 3> kGenerationFigures{"time per token", "time to first token", "throughput"};

/// Properties of engines by which their errors are grouped.
struct EngineTraits {
  std::string engine, gpu, network, weights;  ///< `network`: "dense" or "experts"; `weights`: their format
};

/// The error of a predicted figure.
struct GenerationError {
  GenerationFigure figure = GenerationFigure::token;
  EngineTraits traits;
  double error = 0;  ///< ln(predicted / measured)
};

/// Returns the errors of the families of scenarios/measured/serving, whose predictions these are, and of the
/// throughputs in scenarios/measured/post-training. A throughput to which the host time of its engine was fitted is
/// predicted with the time that is fitted without its network.
std::vector<GenerationError> generation_errors(const std::vector<MeasuredFamily>& serving,
                                               const std::vector<FamilyPrediction>& predictions);

/// The expected error of figures of engines, by figure and kind of network.
///
/// The interval reaches from 1 / f to f times the predicted figure. ln f is the quantile of |ln(predicted / measured)|
/// over the systems, which are engines on a GPU with weights of a format (see `spread_of_kind`). The catalog's constants
/// of engines were chosen with all measured figures in sight, so that only the spread is left out, not the prediction.
class GenerationDoubt {
 public:
  explicit GenerationDoubt(std::vector<GenerationError> errors) : errors_(std::move(errors)) {}
  /// Reads scenarios/measured/tables/serving_errors.csv, once.
  static const GenerationDoubt& shipped();
  std::string csv() const;

  const std::vector<GenerationError>& errors() const { return errors_; }
  /// Returns ln f. `left_out`: a system whose errors do not count; "": none.
  double spread(GenerationFigure, const std::string& network, double probability,
                const std::string& left_out = "") const;
  /// Returns the traits that no measured engine has, in words, separated by commas. Empty: each has been measured.
  std::string unmeasured(const EngineTraits&) const;

 private:
  std::vector<GenerationError> errors_;
};

/// Leaves out each system in turn, and judges the intervals of the others by its measured figures.
std::vector<CoveredRow> cover_each_engine(const GenerationDoubt&, GenerationFigure);

/// Adds the intervals of the throughput, of the time until the last answer ends and, with a constant number of prompts
/// at a time, of the times of tokens.
void add_generation_intervals(const Scenario&, GenerationResult&);

}  // namespace trainyard
