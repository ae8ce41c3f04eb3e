#pragma once
#include <string>
#include <vector>

#include "models/fitted/nccl_fit.hpp"

namespace trainyard {

/// A plot for a terminal: bus bandwidth against size, for one operation and number of GPUs. o: measured, +: fitted,
/// *: both.
std::string nccl_text_plot(const std::vector<NcclPoint>&, NcclOperation, int gpus);
/// A picture with a panel for each operation and number of GPUs. Both axes are logarithmic.
std::string nccl_svg_plot(const NcclFit&);

struct NcclPanel {
  std::string title;
  std::vector<NcclPoint> points;  ///< points of one operation and number of GPUs
};
/// A picture of the sweeps of different machines, in rows of three panels. Points that no fit used have red squares.
std::string nccl_svg_panels(const std::string& title, const std::vector<NcclPanel>&);

}  // namespace trainyard
