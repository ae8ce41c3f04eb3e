#pragma once
#include <array>
#include <map>
#include <string>
#include <vector>

#include "models/hardware/gpu.hpp"
#include "models/hardware/link_fields.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/figure.hpp"
#include "models/software/nccl_version.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// NCCL over one kind of network: an entry of models/catalog/nccl-networks, which `trainyard fit nccl` writes.
struct NcclNetwork {
  std::string name;
  /// Latency of a step from node to node, software and wires, for LL, LL128 and Simple.
  std::array<Seconds, 3> hop;
  Seconds wires;       ///< the part of each hop for adapters and one switch; a cluster replaces it by its own
  Seconds peer;        ///< start-up for each rank on other nodes that a rank sends to at the same time
  Seconds chunk_time;  ///< Simple forwards chunks: a hop waits at most this long for its first chunk
  /// Shares of the rate of a node's network: LL, LL128, then Simple in rings, in trees, and from rank to rank.
  double share_ll = 1, share_ll128 = 1, share_ring = 1, share_tree = 1, share_pairs = 1;
  /// Entries to use instead for nodes with at least one adapter for each GPU, and for nodes whose adapters do not reach
  /// the GPUs' memory; empty: this entry.
  std::string own_adapters, without_gpudirect;
  /// Absolute errors of systems that were left out of the fit in turn: median and 90th percentile of all sizes, and the
  /// median from 64 MiB on. 0: no system was left out.
  double median_error = 0, p90_error = 0, large_error = 0;
  int systems = 0;  ///< number of systems in the fit
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclNetwork read_nccl_network(const Node& entry);

/// Returns the catalog entry. `head` is its first comment; `fit` and `errors` are the sources of its figures.
std::string nccl_network_text(const NcclNetwork&, const std::string& head, const std::string& fit,
                              const std::string& errors);

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
  BytesPerSecond adapter = {};      ///< rate of one adapter; 0: each GPU has one
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
  Seconds wires{};                         ///< the part of `latency` that adapters and switches between the nodes take
};

/// Returns the bytes that a GPU sends in a ring (for gather and scatter: the bytes that the root receives or sends).
Bytes nccl_wire(NcclOperation, Bytes size, int gpus);
/// Returns the bytes that a GPU sends if the switch sums: its buffer, then its share of the sum to all.
Bytes nccl_in_switch_wire(Bytes size, int gpus);
/// Returns the bus bandwidth of nccl-tests: `nccl_wire` over the time.
BytesPerSecond nccl_bus_bandwidth(NcclOperation, Bytes size, int gpus, Seconds time);

/// The protocols of one operation among `gpus` GPUs of one node. Its time is that of the fastest protocol that NCCL
/// uses at the size. LL sends a flag with each 4 bytes and LL128 one with each 120, so neither waits for a whole chunk
/// as Simple does.
struct NcclCurve {
  int gpus = 0;
  NcclProtocol ll, ll128, simple;
  Bytes ll128_until;  ///< above this size NCCL uses Simple even if it is slower; 0: not observed
};

/// NVLink SHARP (NVLS): the switch sums, so that a GPU sends its buffer once, and 1/n of the sum. The same for all n.
struct NcclInSwitch {
  int from_gpus = 0;  ///< NCCL reduces in the switch from this many GPUs on; 0: never
  NcclProtocol nvls;
};

/// NCCL on one kind of GPU: one YAML file in models/catalog/nccls, which `trainyard fit nccl` writes.
struct NcclModel {
  std::string name;
  std::string gpu;           ///< the catalog's GPU that was measured
  std::string architecture;  ///< architecture of `gpu`
  std::string version;       ///< version of NCCL
  BytesPerSecond link;       ///< link rate of `gpu`, per direction; other GPUs are scaled by their ratio to it
  std::map<NcclOperation, std::vector<NcclCurve>> curves;  ///< measured curves, by rising number of GPUs
  NcclInSwitch in_switch;                                  ///< for all-reduce
  double median_error = 0, p90_error = 0;                  ///< errors of rows left out of the fit; 0: there were none
  NcclNetwork between;
  /// Source of the scaling: "scaled from h100-sxm by PCIe 31.5/450 GB/s". If only some operations are scaled, the text
  /// begins with their names. Empty: all operations were measured on this GPU.
  std::string scaled;
  LinkKind link_kind = LinkKind::nvlink;  ///< kind of the links between the GPUs
  Sources sources;
};

/// Reads and checks an entry. Throws UserError with the place.
NcclModel read_nccl_model(const Node& entry);

/// Returns the model of NCCL on `gpu`: its own fit, else the fit of the nearest generation with rates scaled by the
/// links' datasheets (see `scaled`). `network` is an entry of models/catalog/nccl-networks. Throws UserError for a chip
/// without NCCL (TPUs) or without links, and for an unknown network.
NcclModel nccl_model_for(const Gpu& gpu, const Catalog& catalog, const std::string& network = "infiniband");
/// Returns the rate of all links of a GPU to others, per direction: NVLink, chip-to-chip links, or PCIe. NCCL's rates
/// are scaled by it. Throws UserError for a chip without NCCL (TPUs).
BytesPerSecond nccl_link(const Gpu& gpu);
/// Returns the largest number of GPUs of a node with which an operation was measured.
int most_measured_gpus(const NcclModel&);
/// Returns `model` scaled to the links of another GPU. Public for tests and what-if.
NcclModel nccl_scaled(const NcclModel& model, const Gpu& gpu);

}  // namespace trainyard
