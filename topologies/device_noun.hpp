#pragma once
#include <string>
#include <typeinfo>

#include "sim/error.hpp"
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
/// What `work` returns; errors of the user's that it throws are in that noun's words.
template <class Work>
auto errors_in_words_of(const std::string& noun, const Work& work) {
  try {
    return work();
  } catch (const UserError& e) {
    if (typeid(e) != typeid(UserError)) throw;
    throw UserError(in_words_of(noun, e.what()));
  }
}

}  // namespace trainyard
