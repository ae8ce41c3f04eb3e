#pragma once
#include <string>

#include "topologies/cluster.hpp"

namespace trainyard {

/// What chips of the kind are called in text: GPU, TPU, FPGA; an ASIC is an accelerator.
std::string device_noun(ChipKind);
/// The same of all chips of a cluster; of several kinds: device.
std::string device_noun(const ClusterSpec&);
/// The noun for both together; "": of nothing.
std::string common_noun(const std::string&, const std::string&);

/// A text that says GPU of whatever computes, in that noun's words: "a GPU", "GPUs", "GPU-hours" become "an FPGA", "FPGAs",
/// "FPGA-hours". GPUDirect and the like stay.
std::string in_words_of(const std::string& noun, const std::string& text);

}  // namespace trainyard
