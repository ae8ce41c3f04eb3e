#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

/// A run that a paper tells of, beside what the simulator gives for it.
struct PublishedRun {
  std::string id;
  int devices = 0;
  std::string counted;  ///< what the paper's FLOP/s count; empty: it gives tokens
  std::string assumed, source;
  double published = 0, predicted = 0;          ///< TFLOP/s, or tokens/s, of a device
  double published_mfu = 0, predicted_mfu = 0;  ///< of what the paper counts; where it gives tokens, 6 FLOP a parameter
  double mfu = 0, mfu_with_attention = 0;       ///< as predicted, by both usual conventions
  bool fits = true;                             ///< as predicted; the run did
  std::string refused;                          ///< why the simulator does not predict it, else empty

  double points() const { return (predicted_mfu - published_mfu) * 100; }
};

struct PublishedErrors {
  double mean = 0, worst = 0;  ///< absolute, points of MFU
};

/// The scenarios of scenarios/published, by name, simulated side by side.
std::vector<PublishedRun> predict_published();
/// Of those that are predicted; none where none is.
std::optional<PublishedErrors> errors_of(const std::vector<PublishedRun>&);

}  // namespace trainyard
