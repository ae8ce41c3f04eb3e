#pragma once
#include <string>
#include <typeinfo>

#include "sim/error.hpp"
#include "topologies/cluster.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// The noun for chips of a kind in texts: GPU, TPU, FPGA; an ASIC is an accelerator.
std::string device_noun(ChipKind);
/// The noun for all chips of a cluster; if they are of several kinds: device.
std::string device_noun(const ClusterSpec&);
/// The noun for both together; an empty noun does not count.
std::string common_noun(const std::string&, const std::string&);

/// Replaces GPU by the noun in a text about any chip: "a GPU", "GPUs", "GPU-hours" become "an FPGA", "FPGAs",
/// "FPGA-hours". GPUDirect and similar words stay.
std::string in_words_of(const std::string& noun, const std::string& text);
/// Does the same with the noun of a cluster's chips, and replaces NVLink, NCCL and CUDA by the names that the chips' vendor
/// has for them: Infinity Fabric, RCCL and HIP on AMD's. NCCL stays where its fitted model stands for a library that is
/// no port of it. Words stay if the chips are of several vendors.
std::string in_words_of(const ClusterSpec&, const std::string& text);
/// Returns the result of `work`. If it throws a UserError, the error is rewritten with the noun.
template <class Work>
auto errors_in_words_of(const std::string& noun, const Work& work) {
  try {
    return work();
  } catch (const UserError& e) {
    if (typeid(e) != typeid(UserError)) throw;
    throw UserError(in_words_of(noun, e.what()));
  }
}

/// Returns "12.5 GB/s", or a range from the slowest to the fastest.
std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest);
/// Rates of a cable from its first device's view: "12.5 GB/s", or "reads 3.00 GB/s, writes 1.00 GB/s". Adds "half
/// duplex" if both directions share the rate, and "down" if the cable is down.
std::string cable_text(const DeviceGraph&, LinkId wire);

}  // namespace trainyard
