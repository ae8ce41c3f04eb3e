#pragma once
#include <string>
#include <string_view>

namespace trainyard {

/// A node's entry (YAML, as in the catalog's nodes) from a topology as NCCL writes it to NCCL_TOPO_DUMP_FILE: sockets,
/// PCIe switches with their GPUs and HCAs, NVLinks and rates. Figures that the file lacks (latencies, the link between
/// sockets) are assumed as in the catalog and marked as assumed. `file` is how errors and sources call it; `gpu` the name of the
/// GPU's type, empty where the compute capability tells. Throws UserError "file:line:column: …".
std::string node_entry_of_nccl_topology(std::string_view xml, const std::string& file, const std::string& gpu);

}  // namespace trainyard
