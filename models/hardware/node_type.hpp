#pragma once
#include <string>
#include <vector>

#include "models/hardware/cpu.hpp"
#include "models/hardware/gpu.hpp"
#include "models/hardware/link_fields.hpp"
#include "models/hardware/link_kind.hpp"

namespace trainyard {

/// A PCIe switch in a node: its uplink goes to the root port of a socket, GPUs and HCAs hang below it.
struct PcieSwitch {
  int socket = 0;
  std::vector<int> gpus, hcas;  ///< by their numbers in the node
  int uplink_lanes = kFullWidth;
};

/// NVLinks that join the same two GPUs.
struct NvlinkBundle {
  int a = 0, b = 0;
  int links = 1;
};

/// A wire of a node that is given link by link ("graph").
struct GraphWire {
  std::string a, b;                ///< "gpu0", "cpu1", "hca0", "nvme0", or a switch that the node names
  LinkKind kind = LinkKind::pcie;  ///< or `nvlink`, `socket`
  BytesPerSecond rate;
  Picoseconds latency;
  bool half_duplex = false;
  Place place;
};

/// How data gets from GPUs and hosts into the network.
struct NetworkPath {
  bool tcp = false;       ///< through the kernel's sockets: the CPU copies; false: RDMA, the adapter fetches by itself
  bool gpudirect = true;  ///< RDMA from GPU memory; false: it is staged in host memory
  int copies = 2;         ///< a message's copies by the CPU on each side (user space to kernel, kernel to adapter); TCP
  bool half_duplex = false;     ///< sending and receiving share the adapter's rate
  std::string nccl_network;     ///< of the catalog, how NCCL does over it; "": infiniband, or tcp
  std::vector<int> hca_of_gpu;  ///< the HCA that each GPU uses; empty: the nearest, ties by turns
};

/// NVMe drives of a node, dealt out to its sockets.
struct NvmeType {
  int count = 0;
  BytesPerSecond read, write;
  Picoseconds latency;
  int lanes = 4;
  Bytes capacity;  ///< of each; 0: not stated
};

/// How far apart two GPUs may be on PCIe to reach each other's memory without a stop in host memory.
enum class PeerToPeer : std::uint8_t { none, pcie_switch, socket, node };

/// One server: how many devices of which kind, and by what they are joined. `topologies/` makes the graph of it.
struct NodeType {
  std::string name;
  int gpus = 0;
  Gpu gpu;
  std::string interconnect;    ///< name of the builder in topologies: "nvswitch" | "nvlink-mesh" | "pcie"
  Picoseconds nvlink_latency;  ///< from GPU to GPU, switch included; unused with "pcie"
  int hcas = 0;                ///< 0: the node has no network
  BytesPerSecond hca_rate;     ///< per direction
  Picoseconds hca_latency;     ///< host to wire, each side
  Picoseconds pcie_latency;    ///< one PCIe hop (endpoint ↔ switch or root port)
  BytesPerSecond pcie_rate;    ///< 16 lanes, per direction; default: the GPU's
  // Where the defaults are left, each GPU and HCA of one number share a PCIe switch with an uplink of its own.
  BytesPerSecond gpu_pcie_rate;           ///< of a GPU's own 16 lanes where they are slower than the node's; else 0
  int sockets = 1;                        ///< CPUs; all pairs are joined
  BytesPerSecond socket_rate;             ///< between two sockets, per direction; unused by one
  Picoseconds socket_latency;             ///< one hop between two sockets
  int lanes_per_socket = 0;               ///< PCIe lanes of a socket for devices and switches; 0: no limit
  int device_lanes = 0;                   ///< each device has as many; 0: 16, or what bifurcation leaves
  std::vector<PcieSwitch> pcie_switches;  ///< devices behind none hang at root ports
  BytesPerSecond nvlink_rate;             ///< one NVLink of the mesh, per direction
  std::vector<NvlinkBundle> nvlink_mesh;  ///< point-to-point links of "nvlink-mesh"
  Cpu cpu;                                ///< of each socket
  Bytes host_memory;                      ///< of the node; 0: not stated
  NetworkPath network;
  NvmeType nvme;
  PeerToPeer peer_to_peer = PeerToPeer::socket;
  bool pcie_half_duplex = false;
  /// What a buffer in host memory takes up before it passes it on: larger messages are pipelined in such chunks, those
  /// up to it go leg by leg.
  Bytes staging_chunk{524288};
  std::string fabric;    ///< of the catalog: what joins such nodes where the cluster names none; "": they must be told
  PowerDraw hca_power;   ///< of one HCA
  PowerDraw rest_power;  ///< of what is neither GPU, CPU nor HCA: memory, NVSwitches, drives, fans, what supplies lose
  double gpu_speed = 1;  ///< relative: kernels take 1/gpu_speed as long
  std::vector<GraphWire> wires;  ///< of "graph"
  std::vector<std::string> extra_switches;
  Sources part_sources;  ///< of the HCA and the drive that a `type` names
  Sources sources;       ///< of all: the GPU's, the CPU's and those parts' too
};

}  // namespace trainyard
