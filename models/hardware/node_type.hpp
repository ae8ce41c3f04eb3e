#pragma once
#include <string>
#include <vector>

#include "models/hardware/frame_loss.hpp"
#include "models/hardware/gpu.hpp"
#include "models/hardware/link_fields.hpp"
#include "models/hardware/node_parts.hpp"

namespace trainyard {

/// A PCIe switch in a node. Its uplink goes to the root port of a socket; GPUs and HCAs are below it.
struct PcieSwitch {
  int socket = 0;
  std::vector<int> gpus, hcas;  ///< numbers of the devices in the node
  int uplink_lanes = kFullWidth;
};

/// The NVLinks between GPUs `a` and `b`.
struct NvlinkBundle {
  int a = 0, b = 0;
  int links = 1;
};

/// A wire of a node that is described link by link ("graph").
struct GraphWire {
  std::string a, b;                ///< its ends: "gpu0", "cpu1", "hca0", "nvme0", or a switch of the node
  LinkKind kind = LinkKind::pcie;  ///< `pcie`, `nvlink` or `socket`
  BytesPerSecond rate;
  Picoseconds latency;
  bool half_duplex = false;
  Place place;
};

/// The path of data from GPUs and hosts into the network.
struct NetworkPath {
  bool tcp = false;       ///< true: kernel's sockets, the CPU copies; false: RDMA, the adapter reads memory by itself
  bool grpc = false;      ///< true: TCP below TensorFlow's gRPC, which copies in user space as well
  bool gpudirect = true;  ///< true: RDMA from GPU memory; false: data are staged in host memory
  int copies = 2;         ///< TCP: the CPU's copies of a message on each side
  bool half_duplex = false;  ///< sending and receiving share the adapter's rate
  std::string nccl_network;  ///< catalog entry for NCCL over this network; "": infiniband, or tcp
  bool sharp = false;        ///< its adapters are InfiniBand adapters, whose data switches can sum (SHARP)
  FrameLoss loss;
  Picoseconds fabric_latency;   ///< one way through the switches of the cluster's fabric, and over its distance
  std::vector<int> hca_of_gpu;  ///< HCA of each GPU; empty: the nearest one; GPUs take turns among equally near ones
};

/// Ratios of NCCL's figures on a machine to those of the catalog's fits. Collectives of simulated messages ignore them.
struct NcclRatios {
  double startup = 1;          ///< start-ups inside a node
  double rate = 1;             ///< rates inside a node
  double network_startup = 1;  ///< start-ups of steps between nodes
  double network_rate = 1;     ///< shares of the network's rate; a share stays at most 1
  /// Sizes of the collectives to which `trainyard anchor` fitted the ratios. Nothing measured: from 0 to 0.
  struct Sizes {
    Bytes least, most;
    bool operator==(const Sizes&) const = default;
    bool hold(Bytes size) const { return most.value > 0 && size >= least && size <= most; }
  } measured, network_measured;  ///< in a node, and between nodes
  bool operator==(const NcclRatios&) const = default;
};

/// NVMe drives of a node, distributed over its sockets.
struct NvmeType {
  int count = 0;
  BytesPerSecond read, write;
  Picoseconds latency;
  int lanes = 4;
  Bytes capacity;  ///< capacity of one drive; 0: not stated
};

/// The largest distance on PCIe at which two GPUs reach each other's memory without staging in host memory.
enum class PeerToPeer : std::uint8_t { none, pcie_switch, socket, node };

/// One server: its devices and the links between them. `topologies/` builds the graph of links from it.
struct NodeType {
  // Copied and destroyed in many places: compiled once.
  NodeType() = default;
  NodeType(const NodeType&);
  NodeType(NodeType&&) noexcept;
  NodeType& operator=(const NodeType&);
  NodeType& operator=(NodeType&&) noexcept;
  ~NodeType();

  std::string name;
  int gpus = 0;
  Gpu gpu;
  std::string interconnect;    ///< name of the builder in topologies, such as "nvswitch"
  Picoseconds nvlink_latency;  ///< from GPU to GPU, including the switch; unused with "pcie"
  int hcas = 0;                ///< 0: the node has no network
  BytesPerSecond hca_rate;     ///< per direction, with `hca_efficiency`
  double hca_efficiency = 1;   ///< share of the adapters' rate that the network reaches
  Picoseconds hca_latency;     ///< host to wire, each side
  Picoseconds pcie_latency;    ///< one PCIe hop (endpoint ↔ switch or root port)
  BytesPerSecond pcie_rate;    ///< 16 lanes, per direction; default: the GPU's
  // By default, GPU i and HCA i share a PCIe switch that has its own uplink.
  BytesPerSecond gpu_pcie_rate;           ///< rate of a GPU's own link to the host, if stated; else 0
  int sockets = 1;                        ///< number of CPU sockets; each pair of them is joined
  BytesPerSecond socket_rate;             ///< between two sockets, per direction; unused with one socket
  Picoseconds socket_latency;             ///< one hop between two sockets
  int lanes_per_socket = 0;               ///< PCIe lanes of a socket for devices and switches; 0: no limit
  int device_lanes = 0;                   ///< PCIe lanes of each device; 0: 16, or as many as bifurcation leaves
  std::vector<PcieSwitch> pcie_switches;  ///< devices below no switch are at root ports
  BytesPerSecond nvlink_rate;             ///< one NVLink of the mesh, per direction
  std::vector<NvlinkBundle> nvlink_mesh;  ///< point-to-point links of "nvlink-mesh"
  Cpu cpu;                                ///< the CPU in each socket
  Bytes host_memory;                      ///< host memory of the node; 0: not stated
  NetworkPath network;
  NcclRatios nccl;
  NvmeType nvme;
  PeerToPeer peer_to_peer = PeerToPeer::socket;
  bool pcie_half_duplex = false;
  /// Size of a staging buffer in host memory. Larger messages are pipelined in chunks of this size; smaller ones cross
  /// one leg of the path after the other.
  Bytes staging_chunk{524288};
  std::string fabric;    ///< catalog fabric between such nodes if the cluster names none; "": the cluster must name one
  PowerDraw hca_power;   ///< power of one HCA
  PowerDraw rest_power;  ///< power of everything else: memory, NVSwitches, drives, fans, losses of the power supplies
  /// Power of the whole node if each part draws its most. Parts whose power is not stated are left out.
  Watts most_power() const {
    return Watts{gpus * gpu.power.busy.value + sockets * cpu.power.busy.value + hcas * hca_power.busy.value +
                 rest_power.busy.value};
  }
  int rack_units = 0;                       ///< height in units of a rack; 0: not stated
  double gpu_speed = 1;                     ///< relative speed: kernels take 1/gpu_speed as long
  std::vector<GraphWire> wires;             ///< wires of a "graph" node
  std::vector<std::string> extra_switches;  ///< names of the switches of a "graph" node
  Sources part_sources;                     ///< sources of the HCA and the drive that a `type` names
  Sources sources;                          ///< all sources: also those of the GPU, the CPU, the HCA and the drive
};

}  // namespace trainyard
