#pragma once
#include <string>
#include <vector>

#include "models/hardware/node_type.hpp"

namespace trainyard {

/// A node as an import describes it. Figures that no import states (latencies, the link between sockets) are assumed
/// when the entry is written, with values of nodes in the catalog, and marked as assumed.
struct ImportedNode {
  std::string kind, file;          ///< "NCCL topology", "system.xml"
  std::vector<std::string> notes;  ///< comments on the entry, one line each
  int gpus = 0;
  std::string gpu_type;
  std::string interconnect = "pcie";
  std::vector<NvlinkBundle> mesh;
  BytesPerSecond gpu_nvlink;   ///< rate of all NVLinks of a GPU, with "nvswitch"; 0: the rate of its type
  BytesPerSecond nvlink_rate;  ///< rate of one NVLink, per direction, with "nvlink-mesh"
  std::string nvlink_source;   ///< source of both rates; unverified if it begins with "assumed"
  int sockets = 1;
  BytesPerSecond pcie_rate;  ///< rate of 16 lanes; 0: the GPU's rate, and widths are unknown
  int device_lanes = kFullWidth;
  std::vector<PcieSwitch> switches;
  int hcas = 0;
  BytesPerSecond hca_rate;
  std::string hca_source;  ///< source of `hca_rate`; empty: the file
};

/// Returns the entry as YAML, in the format of the catalog's nodes.
std::string imported_node_entry(const ImportedNode&);

}  // namespace trainyard
