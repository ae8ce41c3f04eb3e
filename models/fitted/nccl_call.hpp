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
const char* name_of(NcclOperation);  ///< name of the program in nccl-tests, without `_perf`
/// Accepts '-' for '_', and also `all_to_all`. Throws UserError naming the operations.
NcclOperation parse_nccl_operation(const std::string&);

/// One protocol of NCCL on one ring: a start-up time, then bytes at a rate.
struct NcclProtocol {
  Seconds startup;
  BytesPerSecond rate;  ///< rate of the bytes that a GPU sends, `nccl_wire`
  Seconds time(Bytes wire) const { return startup + wire / rate; }
};

/// One collective of NCCL. `size` is counted as nccl-tests does: for all_reduce, broadcast and reduce the buffer; for
/// all_gather and gather the whole output; for reduce_scatter and scatter the whole input; for alltoall and sendrecv
/// the bytes that one rank sends.
struct NcclCall {
  NcclOperation operation = NcclOperation::all_reduce;
  Bytes size;
  int gpus = 1;  ///< number of GPUs in all nodes
  int nodes = 1;
  /// Total rate of the adapters that the call's GPUs on one node use, per direction. Required if `nodes` > 1.
  BytesPerSecond network = {};
  BytesPerSecond gpu_network = {};  ///< rate of the adapters that one GPU uses; 0: its share of the node's
  Seconds wires{-1};        ///< one-way latency of adapters and switches between hosts; below 0: the network entry's
  bool in_switch = true;    ///< false: as with NCCL_NVLS_ENABLE=0
  bool rings_only = false;  ///< as with NCCL_ALGO=Ring
  int local = 0;            ///< number of GPUs on the node that has the fewest; 0: all nodes have the same number
  BytesPerSecond machine = {};  ///< limit of the rate of a GPU over the node's links; 0: the model's rates hold
  NcclVersion version = {};     ///< decides which algorithms there are
  bool sharp = false;           ///< the switches between nodes sum data, and NCCL's plugin for that is installed
  bool nvswitch = false;        ///< all GPUs of a node reach each other at once
  int adapters = 0;             ///< adapters of a node that a sum in the network uses; 0: one for each GPU
  bool pxn = false;             ///< messages leave the node through the GPU on the receiver's rail
  bool own_adapter = false;     ///< one GPU a node, on nodes with several adapters
  Seconds launch = {};          ///< time of the host for each call; 0: no call waits for the host

  int fewest() const { return local > 0 ? local : gpus / nodes; }  ///< GPUs on the node that has the fewest
};

struct NcclCost {
  Seconds time;
  Seconds latency;      ///< the part of `time` that is start-up
  BytesPerSecond rate;  ///< rate of `wire` after the start-up; 0: nothing is sent
  /// Algorithm and protocol: "ring, LL128", "tree, LL", "NVLS"; "Simple" between pairs; "copy" for one GPU.
  const char* protocol = "";
  Bytes wire;  ///< bytes that a GPU sends
  bool in_switch = false;
  LinkKind limited_by = LinkKind::nvlink;  ///< kind of the links that limit `rate`
  bool rings = false;                      ///< true: the algorithm is the ring
};

/// Returns the bytes that a GPU sends in a ring (for gather and scatter: the bytes that the root receives or sends).
Bytes nccl_wire(NcclOperation, Bytes size, int gpus);
/// Returns the bytes that a GPU sends if the switch sums: its buffer, then its share of the sum to all.
Bytes nccl_in_switch_wire(Bytes size, int gpus);
/// Returns the bus bandwidth of nccl-tests: `nccl_wire` over the time.
BytesPerSecond nccl_bus_bandwidth(NcclOperation, Bytes size, int gpus, Seconds time);

}  // namespace trainyard
