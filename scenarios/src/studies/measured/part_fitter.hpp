#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/anchor.hpp"
#include "scenarios/src/studies/measured/scale_fit.hpp"

namespace trainyard {

/// Rows of one kind of measurement, and how the simulator predicts them.
struct PartRows {
  std::string words;               ///< "36 collectives of nccl-tests"
  std::vector<std::string> names;  ///< one for each row
  std::vector<double> measured;    ///< times or sizes
  std::function<std::vector<double>(const Scenario&)> predict;
  Overrides conditions = {};  ///< changes of the scenario under which the rows were measured
  void add(std::string name, double value) {
    names.push_back(std::move(name));
    measured.push_back(value);
  }
};

/// The machine's scenario, and the constants that measurements of parts have changed so far.
class PartFitter {
 public:
  PartFitter(Node scenario, std::string name);

  /// Reads the scenario with all changes so far, and with `more`.
  Scenario scenario(const Overrides& more = {}) const;
  /// Fits the scales to the rows. `always`: changes to make as well if any scale changes its constants.
  void fit(const PartRows&, const std::vector<ScaleRule>&, ScaleFitOptions, const Overrides& always = {});
  AnchorParts take() { return std::move(fitted_); }
  int traced_steps = 0;  ///< number of steps in a trace; 0: the number that the trace marks, or one

 private:
  /// Warns of rows that are far off, and of measurements of one thing that contradict each other. `errors`: logarithms.
  void warn_of(const PartRows&, const std::vector<double>& errors);
  std::string name_;
  AnchorParts fitted_;
};

/// Rows of a table share their errors, so more rows than this do not make a fit more certain.
constexpr double kMostPartRows = 16;

/// Reads an amount such as "71.2 GiB". No value: the text is no amount.
std::optional<Bytes> amount_of(const std::string&);
/// Returns the index of nvidia-smi's column "memory.used [MiB]", or the number of columns if there is none.
std::size_t used_column(const std::vector<std::string>& header);

// Each of these functions fits constants to the files of one kind (see `fit_parts`).
void fit_collectives(PartFitter&, const std::vector<std::string>& files);
void fit_products(PartFitter&, const std::vector<std::string>& files);
void fit_traced_kernels(PartFitter&, const std::vector<std::string>& files);
void fit_memory(PartFitter&, const std::vector<std::string>& files);

}  // namespace trainyard
