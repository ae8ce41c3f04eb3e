#pragma once
#include <string>
#include <vector>

#include "models/fitted/fitting.hpp"
#include "models/fitted/nccl_log.hpp"
#include "models/fitted/nccl_model.hpp"

namespace trainyard {

/// Texts in a fitted entry about its rows and errors.
struct NcclProvenance {
  std::string head;    ///< first comment of the entry
  std::string fit;     ///< source of the fitted figures
  std::string errors;  ///< source of the errors
};

/// Returns the model as a complete catalog entry, with figures of four digits, each with its source. Equal models give
/// equal texts.
std::string nccl_entry_text(const NcclModel&, const NcclProvenance&);

/// A measured row and the time that the fit predicts for it.
struct NcclPoint {
  NcclRow row;
  Seconds predicted;
  bool judged = false;  ///< left out of the fit
  double error() const { return predicted / row.time - 1; }
};

/// Errors of some rows. Without rows they are 0.
struct NcclErrors : FitErrors {
  int rows = 0;
};

struct NcclFit {
  NcclModel model;  ///< with figures of four digits, as in the entry
  std::vector<NcclPoint> points;
  NcclErrors judged, fitted;
  int between_nodes = 0;  ///< number of rows between nodes, which are left out
  std::string entry;      ///< text of the catalog entry
};

/// Does the fit use this size? It uses sizes whose rounded log2 is even; the others judge the fit.
bool nccl_size_is_fitted(Bytes size);

/// Fits the three protocols of each operation and number of GPUs in one node. All `logs` are of one kind of GPU.
/// Minimizes the mean |log(predicted / measured)| over the sizes with an even log2 by a pattern search from fixed
/// starts. Deterministic. A curve with fewer than three such sizes is fitted to all its rows, and no row judges it.
/// Throws UserError if a curve has fewer than three sizes, or if no rows are within one node.
NcclFit fit_nccl(const std::vector<NcclLog>& logs, const Gpu& gpu, const std::string& name);

}  // namespace trainyard
