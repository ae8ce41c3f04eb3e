#pragma once
#include "models/hardware/node_type.hpp"

namespace trainyard {

/// Reads an entry: `gpu: {count, type}` (type a name or a map; any other key changes a figure of the type),
/// `interconnect`, the links inside (`read_links`); where there are any `hca: {count, rate, latency, transport: rdma |
/// tcp, gpudirect, copies, duplex: full | half, of_gpu: [HCA of each GPU]}`, `cpu` (a name or a map), `host_memory`,
/// `nvme: {count, read, write, latency, lanes, capacity}`, `staging_chunk`, `gpu_speed`. `hca` and `nvme` take the
/// figures of a `type: NAME` of the catalog's hcas and storages. Throws UserError with the
/// place.
NodeType read_node(const Node& entry, const Catalog&);

}  // namespace trainyard
