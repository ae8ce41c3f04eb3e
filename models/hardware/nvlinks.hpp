#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Does any wire of the node carry NVLink?
bool has_nvlink(const NodeType&);

/// What the GPU with the fewest NVLinks has, per direction: through NVSwitch, or over all its links to other GPUs. 0: it
/// has none.
BytesPerSecond least_nvlink(const NodeType&);

}  // namespace trainyard
