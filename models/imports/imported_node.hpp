#pragma once
#include <string>
#include <vector>

#include "models/hardware/node_type.hpp"

namespace trainyard {

/// A node as an import describes it. Figures that no import states (latencies, the link between sockets) are assumed as
/// in the catalog when the entry is written, and marked as assumed.
struct ImportedNode {
  std::string kind, file;          ///< "NCCL topology", "system.xml"
  std::vector<std::string> notes;  ///< comments on the entry, a line each
  int gpus = 0;
  std::string gpu_type;
  std::string interconnect = "pcie";
  std::vector<NvlinkBundle> mesh;
  BytesPerSecond gpu_nvlink;   ///< all NVLinks of a GPU, with "nvswitch"; 0: as its type has them
  BytesPerSecond nvlink_rate;  ///< one NVLink, per direction, with "nvlink-mesh"
  std::string nvlink_source;   ///< of both rates; unverified where it begins with "assumed"
  int sockets = 1;
  BytesPerSecond pcie_rate;  ///< of 16 lanes; 0: the GPU's, and nothing is known of widths
  int device_lanes = kFullWidth;
  std::vector<PcieSwitch> switches;
  int hcas = 0;
  BytesPerSecond hca_rate;
  std::string hca_source;  ///< of the rate; empty: the file
};

/// The entry as YAML, as in the catalog's nodes.
std::string imported_node_entry(const ImportedNode&);

}  // namespace trainyard
