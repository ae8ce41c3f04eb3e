#pragma once
#include <string>

#include "models/hardware/link_kind.hpp"
#include "models/software/nccl_version.hpp"
#include "sim/units.hpp"

namespace trainyard {

enum class NcclOperation {
  all_reduce,
  all_gather,
  reduce_scatter,
  alltoall,
  broadcast,
  reduce,
  sendrecv,
  gather,
  scatter
};
constexpr int kNcclOperations = 9;
const char* name_of(NcclOperation);  ///< as nccl-tests calls its programs, without `_perf`
/// '-' and '_' are one; also `all_to_all`. Throws UserError naming the operations.
NcclOperation parse_nccl_operation(const std::string&);

/// One protocol of NCCL on one ring: a start-up time, then bytes at a rate.
struct NcclProtocol {
  Seconds startup;
  BytesPerSecond rate;  ///< of the bytes that a GPU sends, `nccl_wire`
  Seconds time(Bytes wire) const { return startup + wire / rate; }
};

/// What NCCL is asked to do. `size` is as nccl-tests counts it: all_reduce, broadcast and reduce the buffer; all_gather
/// and gather the whole output, reduce_scatter and scatter the whole input; alltoall and sendrecv what one rank sends.
struct NcclCall {
  NcclOperation operation = NcclOperation::all_reduce;
  Bytes size;
  int gpus = 1;  ///< all together
  int nodes = 1;
  BytesPerSecond network = {};  ///< of the adapters that its GPUs on a node use, per direction; needed where nodes > 1
  BytesPerSecond gpu_network = {};  ///< of the adapters that one GPU uses; 0: its share of the node's
  Seconds wires{-1};                ///< adapters and switches from host to host, one way; below 0: the network entry's
  bool in_switch = true;            ///< false: as with NCCL_NVLS_ENABLE=0
  bool rings_only = false;          ///< as with NCCL_ALGO=Ring
  int local = 0;                    ///< GPUs on the node that has the fewest; 0: the same number on each
  BytesPerSecond machine = {};      ///< at most so much a GPU sends by the node's own links; 0: as the model has it
  NcclVersion version = {};         ///< what there is to choose from
  bool sharp = false;               ///< the switches between nodes add, and NCCL's plugin for that is there
  bool nvswitch = false;            ///< all GPUs of a node reach each other at once
  int adapters = 0;                 ///< of a node, that a sum in the network goes by; 0: one a GPU
  bool pxn = false;                 ///< messages leave by the GPU on the receiver's rail
  bool own_adapter = false;         ///< one GPU a node, on nodes with several adapters
  Seconds launch = {};              ///< the host's, for each call; 0: nothing waits for it

  int fewest() const { return local > 0 ? local : gpus / nodes; }
};

struct NcclCost {
  Seconds time;
  Seconds latency;            ///< of which start-up
  BytesPerSecond rate;        ///< of `wire` after that; 0 where nothing is sent
  const char* protocol = "";  ///< "LL", "LL128", "Simple", "NVLS", "tree, LL"; "copy" for one GPU
  Bytes wire;                 ///< what a GPU sends
  bool in_switch = false;
  LinkKind limited_by = LinkKind::nvlink;  ///< the links by which `rate` is scaled
};

/// Bytes that a GPU sends in a ring (of gather and scatter: that the root receives or sends).
Bytes nccl_wire(NcclOperation, Bytes size, int gpus);
/// Bytes that a GPU sends where the switch adds: its buffer, then its share of the sum to all.
Bytes nccl_in_switch_wire(Bytes size, int gpus);
/// What nccl-tests calls bus bandwidth: `nccl_wire` over the time.
BytesPerSecond nccl_bus_bandwidth(NcclOperation, Bytes size, int gpus, Seconds time);

}  // namespace trainyard
