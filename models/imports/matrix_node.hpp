#pragma once
#include <string>
#include <string_view>

#include "models/hardware/gpu.hpp"

namespace trainyard {

/// A node's entry (YAML, as in the catalog's nodes) from the text of `nvidia-smi topo -m`, wired such that the same
/// matrix follows from it; but one host bridge a socket (NODE becomes PHB) and one level of PCIe switches (PXB becomes
/// PIX). Figures that the print lacks are the GPU's or assumed, and marked as such. `hca_rate`: per direction; 0: assumed.
/// `file` is how errors and sources call it. Throws UserError "file:line:column: …".
std::string node_entry_of_topology_matrix(std::string_view text, const std::string& file, const Gpu&,
                                          BytesPerSecond hca_rate);

}  // namespace trainyard
