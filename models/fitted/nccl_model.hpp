#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/hardware/link_kind.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
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

/// NCCL over one kind of network: an entry of models/catalog/nccl-networks, which `trainyard fit nccl` writes.
struct NcclNetwork {
  std::string name;
  /// A step from node to node, software and wires, by protocol: LL, LL128, Simple.
  std::array<Seconds, 3> hop;
  Seconds wires;       ///< of each hop: adapters and one switch; a cluster's own take their place
  Seconds peer;        ///< for each rank on other nodes that a rank sends to at the same time
  Seconds chunk_time;  ///< Simple passes chunks on: for so long at most a hop waits for the first of them
  /// Of the rate of a node's network: LL, LL128, then Simple in rings, trees, and from rank to rank.
  double share_ll = 1, share_ll128 = 1, share_ring = 1, share_tree = 1, share_pairs = 1;
  /// The entries for nodes that have an adapter or more for each GPU, and for those whose adapters do not reach the GPUs'
  /// memory; empty: the same.
  std::string own_adapters, without_gpudirect;
  /// Absolute errors of systems that were left out of the fit in turn: all sizes, and the median from 64 MiB on. 0:
  /// none were.
  double median_error = 0, p90_error = 0, large_error = 0;
  int systems = 0;  ///< of the fit
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclNetwork read_nccl_network(const Node& entry);

/// The entry as the catalog has it. `fit` and `errors` say where its figures are from.
std::string nccl_network_text(const NcclNetwork&, const std::string& head, const std::string& fit,
                              const std::string& errors);

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
  NcclNetwork between;
  /// Why this is more than a fit: "scaled from h100-sxm by PCIe 31.5/450 GB/s"; empty for the GPU that was measured.
  std::string scaled;
  LinkKind link_kind = LinkKind::nvlink;  ///< of `link`
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclModel read_nccl_model(const Node& entry);

/// NCCL on `gpu`: its own fit, else the fit of the nearest generation with its rates scaled by the links' datasheet
/// (`scaled` says so). `network` is an entry of models/catalog/nccl-networks. Throws UserError for a chip that does not
/// speak NCCL (TPUs) or has no link, and for an unknown network.
NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network = "infiniband");
/// All links of a GPU to others, per direction, by which NCCL's rates are scaled: NVLink, those of chips, or PCIe.
BytesPerSecond nccl_link(const Gpu& gpu);
/// `model` on the links of another GPU. Public for tests and what-if.
NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu);

/// What a fitted entry says of its rows and error.
struct NcclProvenance {
  std::string head;    ///< the entry's first comment
  std::string fit;     ///< source of the fitted figures
  std::string errors;  ///< source of the errors
};

/// The model as an entry of the catalog, whole: figures of four digits, each with its source. Equal models give equal
/// text.
std::string nccl_entry_text(const NcclModel&, const NcclProvenance&);

}  // namespace trainyard
