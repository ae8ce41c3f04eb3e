#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads an entry. Required are `gpu: {count, type}` (type is a name or a map; any other key changes a figure of the
/// type), `interconnect` and the links inside (`read_links`). Optional are `hca: {count, rate, latency, transport: rdma
/// | tcp, gpudirect, copies, duplex: full | half, of_gpu: [HCA of each GPU]}`, `cpu` (a name or a map), `host_memory`,
/// `nvme: {count, read, write, latency, lanes, capacity}`, `staging_chunk`, `nccl`, `fabric`, `gpu_speed` and `power`. `hca`
/// and `nvme` take the figures of the catalog's entry that their `type` names. Throws UserError with the place.
NodeType read_node(const Node& entry, const Catalog&);

}  // namespace trainyard
