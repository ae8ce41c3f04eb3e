#pragma once
#include <array>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/interval_coverage.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {

/// The error of a predicted time of a collective. The fit of the prediction did not use the measured time.
struct CollectiveError {
  std::string kind;    ///< the kind of machine, see `collective_kind`
  std::string system;  ///< the machine, and who measured on it
  Bytes size;
  double error = 0;  ///< ln(predicted / measured)
};

/// Returns the kind of a machine. Predictions for machines of one kind have similar errors. The network between the
/// nodes determines the kind; for a single node, the links between its GPUs do.
std::string collective_kind(const ClusterSpec&, const NcclNode&);
/// The kinds of machines of one node with NVSwitches: the times of its GPUs are fitted, or scaled from other GPUs.
constexpr const char* kFittedGpus = "in one node, GPUs with a fit";
constexpr const char* kScaledGpus = "in one node, GPUs scaled from others";
/// The kind of machines of one node whose GPUs are linked without a switch (NVLink pairs and meshes, xGMI).
constexpr const char* kLinkedGpus = "in one node by links of its GPUs";

/// Number of ranges of sizes, each with its own errors: below 64 KiB, below 64 MiB, and larger.
constexpr int kSizeRanges = 3;

/// The share of the measured times of one kind of machine that lie inside their intervals.
struct CollectiveCoverage {
  std::string kind;
  std::size_t rows = 0, systems = 0;
  double by_rows = 0, by_systems = 0;      ///< share of all rows; mean of the shares of the systems
  std::array<double, kSizeRanges> half{};  ///< half width by range of sizes, as a share; 0: no rows
};

/// The expected error of a collective's predicted time, by kind of machine and size.
///
/// The interval reaches from 1 / f to f times the predicted time. ln f is the quantile of |ln(predicted / measured)|
/// over the rows of the kind and range. A system counts as the square root of its number of rows, and the rows of all
/// other kinds together count as one more system of mean weight.
class CollectiveDoubt {
 public:
  /// Fits the spreads of the intervals of a probability. `left_out`: a system whose rows the fit does not use; "": none.
  static CollectiveDoubt fit(const std::vector<CollectiveError>&, const std::string& left_out = "",
                             double probability = kLikely);
  /// Reads scenarios/measured/tables/collective_doubt.csv, once.
  static const CollectiveDoubt& shipped();
  std::string csv() const;

  /// Returns the interval that holds a measured time with the probability of the fit (kLikely if read from the table),
  /// as factors of the predicted time. `is_anchored`: the prediction is anchored to other times of the same machine in
  /// this range of sizes, so that only the scatter of times around their machine's mean error is left.
  StepRange range(const std::string& kind, Bytes size, bool is_anchored = false) const;
  /// Returns the number of measured systems of this kind.
  int systems(const std::string& kind) const;

 private:
  struct Kind {
    std::string name;
    int systems = 0;
    std::array<double, kSizeRanges> spread{};   ///< ln f by range of sizes
    std::array<double, kSizeRanges> scatter{};  ///< ln f around the mean error of the machine; at most `spread`
  };
  std::vector<Kind> kinds_;
  const Kind& kind_called(const std::string& name) const;
};

/// A measured time of a collective and its intervals. Its family is its system.
struct CoveredCollective : CoveredRow {
  std::string kind;
  Bytes size;
};
/// Leaves out each system in turn, fits the doubt to the others and judges its intervals by the rows of that system.
/// `are_anchored`: each row is predicted with the mean error that the system's other rows of its range of sizes have;
/// rows without others are left out.
std::vector<CoveredCollective> cover_each_collective(const std::vector<CollectiveError>&, bool are_anchored = false);
/// Returns the coverage of the 80 % intervals by kind of machine. The first element counts all kinds together.
std::vector<CollectiveCoverage> cover_each_system(const std::vector<CollectiveError>&);

}  // namespace trainyard
