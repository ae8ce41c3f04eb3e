#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Does any wire of the node carry NVLink?
bool has_nvlink(const NodeType&);

/// Returns the NVLink rate, per direction, of the GPU with the lowest one: through NVSwitch, or the sum over its links
/// to other GPUs. 0: it has no NVLink.
BytesPerSecond least_nvlink(const NodeType&);

}  // namespace trainyard
