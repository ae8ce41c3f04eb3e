#pragma once
#include <string>
#include <string_view>

#include "models/hardware/gpu.hpp"

namespace trainyard {

/// A node's entry (YAML, as in the catalog's nodes) from a topology as NCCL writes it to NCCL_TOPO_DUMP_FILE: sockets,
/// PCIe switches with their GPUs and HCAs, NVLinks and rates. Figures that the file lacks (latencies, the link between
/// sockets) are assumed as in the catalog and marked as assumed. `file` is how errors and sources call it; `gpu` the name of the
/// GPU's type, empty where the compute capability tells. Throws UserError "file:line:column: …".
std::string node_entry_of_nccl_topology(std::string_view xml, const std::string& file, const std::string& gpu);

/// A node's entry (YAML, as in the catalog's nodes) from the text of `nvidia-smi topo -m`, wired such that the same
/// matrix follows from it; but one host bridge a socket (NODE becomes PHB) and one level of PCIe switches (PXB becomes
/// PIX). Figures that the print lacks are the GPU's or assumed, and marked as such. `hca_rate`: per direction; 0: assumed.
/// `file` is how errors and sources call it. Throws UserError "file:line:column: …".
std::string node_entry_of_topology_matrix(std::string_view text, const std::string& file, const Gpu&,
                                          BytesPerSecond hca_rate);
/// Whether some line can be the header or a row of such a matrix.
bool looks_like_topology_matrix(std::string_view text);

}  // namespace trainyard
