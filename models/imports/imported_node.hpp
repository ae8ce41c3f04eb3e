#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu.hpp"
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

/// Makes a node's entry (YAML, in the format of the catalog's nodes) of a topology that NCCL writes to
/// NCCL_TOPO_DUMP_FILE: sockets, PCIe switches with their GPUs and HCAs, NVLinks and rates. Figures that the file lacks
/// (latencies, the link between sockets) are assumed with values of the catalog and marked as assumed. `file` is the
/// name in errors and sources. `gpu` is the name of the GPU's type; empty: the compute capability decides. Throws
/// UserError "file:line:column: …".
std::string node_entry_of_nccl_topology(std::string_view xml, const std::string& file, const std::string& gpu);

/// Makes a node's entry (YAML, in the format of the catalog's nodes) of the text of `nvidia-smi topo -m`. The node has
/// the same matrix, except that each socket has one host bridge (NODE becomes PHB) and PCIe switches have one level
/// (PXB becomes PIX). Figures that the print lacks are the GPU's, or assumed and marked as such. `hca_rate`: per
/// direction; 0: assumed. `file` is the name in errors and sources. Throws UserError "file:line:column: …".
std::string node_entry_of_topology_matrix(std::string_view text, const std::string& file, const Gpu&,
                                          BytesPerSecond hca_rate);
/// Returns true if some line may be the header or a row of such a matrix.
bool looks_like_topology_matrix(std::string_view text);

}  // namespace trainyard
