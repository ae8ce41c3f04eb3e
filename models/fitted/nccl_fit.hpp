#pragma once
#include <string>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/fitted/nccl_log.hpp"
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// A measured row beside what the fit gives for it.
struct NcclPoint {
  NcclRow row;
  Seconds predicted;
  bool judged = false;  ///< kept out of the fit
  double error() const { return predicted / row.time - 1; }
};

/// Without rows they are 0.
struct NcclErrors : FitErrors {
  int rows = 0;
};

struct NcclFit {
  NcclModel model;  ///< figures of four digits, as the entry has them
  std::vector<NcclPoint> points;
  NcclErrors judged, fitted;
  int between_nodes = 0;  ///< rows between nodes, left out
  std::string entry;      ///< the whole catalog entry
};

/// Does the fit use this size? Those whose log2, rounded, is even; the others judge it.
bool nccl_size_is_fitted(Bytes size);

/// Fits the three protocols of each operation and number of GPUs in `logs`, which are of one kind of GPU, in one node.
/// Minimizes the mean |log(predicted / measured)| over the sizes with an even log2 by a pattern search from fixed
/// starts: deterministic. Curves with fewer than three such sizes take all their rows, and none judge them. Throws
/// UserError where a curve has fewer than three rows, or there is nothing within one node.
NcclFit fit_nccl(const std::vector<NcclLog>& logs, const Gpu& gpu, const std::string& name);

}  // namespace trainyard
