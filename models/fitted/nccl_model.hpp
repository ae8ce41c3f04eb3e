#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/hardware/link_kind.hpp"
#include "models/reading/catalog.hpp"
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

/// How one operation takes its time among `gpus` of one node: the protocol that is fastest, of those in use at that size.
/// LL sends a flag with each 4 bytes and LL128 one with each 120, so neither waits for a whole chunk as Simple does.
struct NcclCurve {
  int gpus = 0;
  NcclProtocol ll, ll128, simple;
  Bytes ll128_until;  ///< NCCL leaves LL (and LL128) above this size, even where Simple is slower; 0: never so seen
};

/// NVLink SHARP (NVLS): the switch adds, so that a GPU sends its buffer once, and 1/n of the sum. The same for all n.
struct NcclInSwitch {
  int from_gpus = 0;  ///< NCCL reduces in the switch from this many GPUs; 0: never
  NcclProtocol nvls;
};

/// Between nodes: a latency for each, and what NCCL gets of the rate of a node's network.
struct NcclBetweenNodes {
  Seconds hop;
  Seconds wires;  ///< of that, adapters and one switch: a cluster's own take their place
  double rate_share = 1;
  Sources sources;
};

/// NCCL on one kind of GPU: one YAML file in models/catalog/nccls, which `trainyard fit nccl` writes.
struct NcclModel {
  std::string name;
  std::string gpu;           ///< the catalog's GPU that was measured
  std::string architecture;  ///< of that
  std::string version;       ///< of NCCL
  BytesPerSecond link;       ///< of that GPU, per direction, by which other GPUs are scaled
  std::map<NcclOperation, std::vector<NcclCurve>> curves;  ///< by number of GPUs, rising; measured
  NcclInSwitch in_switch;                                  ///< of all-reduce
  double median_error = 0, p90_error = 0;                  ///< of rows that were kept out of the fit; 0: none were
  NcclBetweenNodes between;
  /// Why this is more than a fit: "scaled from h100-sxm by PCIe 31.5/450 GB/s"; empty for the GPU that was measured.
  std::string scaled;
  LinkKind link_kind = LinkKind::nvlink;  ///< of `link`
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclModel read_nccl_model(const Node& entry);
NcclBetweenNodes read_nccl_between_nodes(const Node& entry);

/// NCCL on `gpu`: its own fit, else the fit of the nearest generation with its rates scaled by the links' datasheet
/// (`scaled` says so). `network` is an entry of models/catalog/nccl-networks: only efa-b200 was measured. Throws UserError
/// for a chip that does not speak NCCL (TPUs) or has no link, and for an unknown network.
NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network = "infiniband");
/// `model` on the links of another GPU. Public for tests and what-if.
NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu);

/// What NCCL is asked to do. `size` is as nccl-tests counts it: all_reduce, broadcast and reduce the buffer; all_gather
/// and gather the whole output, reduce_scatter and scatter the whole input; alltoall and sendrecv what one rank sends.
struct NcclCall {
  NcclOperation operation = NcclOperation::all_reduce;
  Bytes size;
  int gpus = 1;  ///< all together
  int nodes = 1;
  BytesPerSecond network = {};  ///< of a node, per direction; needed where nodes > 1
  Seconds hop = {};             ///< latency of a step between nodes, software and wire; 0: the model's
  bool in_switch = true;        ///< false: as with NCCL_NVLS_ENABLE=0
  int local = 0;                ///< GPUs on the node that has the fewest; 0: the same number on each

  int fewest() const { return local > 0 ? local : gpus / nodes; }
};

struct NcclCost {
  Seconds time;
  Seconds latency;            ///< of which start-up
  BytesPerSecond rate;        ///< of `wire` after that; 0 where nothing is sent
  const char* protocol = "";  ///< "LL", "LL128", "Simple", "NVLS"; "copy" for one GPU
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

/// Never falls with growing size. Numbers of GPUs between the measured ones lie between these; above, start-ups grow as
/// between the last two measured, rates stay. Throws UserError where `gpus` is below 1 or, without `local`, not a
/// multiple of `nodes`, or the network is missing.
NcclCost nccl_cost(const NcclModel&, const NcclCall&);

}  // namespace trainyard
