#pragma once
#include <string>
#include <string_view>

#include "models/hardware/gpu.hpp"

namespace trainyard {

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
