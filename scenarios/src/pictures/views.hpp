#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

class ClusterMachine;
class DeviceGraph;

/// What a scenario becomes before anything is simulated, for people and tests.

/// One operation of a rank's program, in the order of yielding.
struct ScheduleLine {
  std::size_t number = 0;  ///< from 1
  std::string stream, kind, after, what;
  double flops = 0, bytes = 0;  ///< bytes: of local memory; of a message; of a modelled exchange, what a rank sends
  double memory = 0;            ///< bytes of device memory that it takes, negative: gives back
  int peer = -1;                ///< of a message
};
struct Schedule {
  std::vector<ScheduleLine> lines;  ///< the first `most`
  std::size_t operations = 0;       ///< of all
};
Schedule schedule(const Plan&, int rank, std::size_t most);

/// Where a rank stands: its coordinates in the mesh, and its device.
struct MeshRank {
  int rank = 0, node = 0;
  Coordinates at;
  int expert = 0;         ///< which part of the experts it holds
  int expert_tensor = 0;  ///< which part of each of these, where they have tensor ranks of their own
  std::string device;     ///< "node0/gpu3"
};
std::vector<MeshRank> mesh(const Scenario&);

/// Links that are equal but for where they are, each direction counted.
struct LinkClass {
  std::string kind, from, to;  ///< kinds of link and of devices
  BytesPerSecond rate;
  Picoseconds latency;
  int count = 0;
  std::string example;
  std::vector<LinkId> links;
};
std::vector<LinkClass> link_classes(const DeviceGraph&);
/// The way of a message between two ranks, alone on it.
struct RouteView {
  std::string what;  ///< "within a node"
  int from = 0, to = 0;
  std::vector<std::string> hops;  ///< devices, both ends included
  std::string bottleneck_link, bottleneck_kind;
  BytesPerSecond rate;
  Picoseconds latency;   ///< of the wires and of software
  Picoseconds software;  ///< its part
};
struct MachineView {
  std::vector<std::pair<std::string, int>> devices;  ///< by kind
  std::vector<LinkClass> links;
  std::vector<RouteView> routes;
};
MachineView machine_view(const Scenario&);
/// Do messages of NCCL's to another rail of another node go by NVLink to the GPU on that rail first (PXN)?
bool goes_by_pxn(const Scenario&);
RouteView route_view(const ClusterMachine&, std::string what, int from, int to);
nlohmann::ordered_json to_json(const RouteView&);
/// "0-7, 64, 72 … 120": runs of neighbours, or of equal steps; the first six.
std::string ranks_in_words(const std::vector<int>&);

/// Which ranks are simulated once for all that are alike (sim/folding).
struct FoldView {
  struct Class {
    int rank = 0;  ///< the first, which is simulated
    int size = 1;
    std::string members;  ///< "0-7, 64-71"
    std::string device;   ///< of the first
  };
  int ranks = 0;
  std::vector<Class> classes;
  int links = 0;                     ///< classes of links that messages cross
  std::vector<std::string> reasons;  ///< what told classes apart first
  std::string unfolded;              ///< why each rank is simulated; "": they are folded
};
FoldView fold_view(const Scenario&);

nlohmann::ordered_json to_json(const FoldView&);
nlohmann::ordered_json to_json(const Schedule&);
nlohmann::ordered_json to_json(const std::vector<MeshRank>&);
nlohmann::ordered_json to_json(const MachineView&);

}  // namespace trainyard
