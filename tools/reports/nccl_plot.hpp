#pragma once
#include <string>
#include <vector>

#include "models/fitted/nccl_fit.hpp"

namespace trainyard {

/// Bus bandwidth against size of one operation on one number of GPUs, for a terminal: o measured, + fitted, * both.
std::string nccl_text_plot(const std::vector<NcclPoint>&, NcclOperation, int gpus);
/// The same for every operation and number of GPUs, a panel each, as a picture; both axes logarithmic.
std::string nccl_svg_plot(const NcclFit&);

/// Sweeps of different machines, a panel each, in rows of three; squares red where they were held out.
struct NcclPanel {
  std::string title;
  std::vector<NcclPoint> points;  ///< of one operation and number of GPUs
};
std::string nccl_svg_panels(const std::string& title, const std::vector<NcclPanel>&);

}  // namespace trainyard
