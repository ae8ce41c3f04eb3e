#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

class ClusterMachine;
class DeviceGraph;

// Views of a scenario before anything is simulated, for people and tests.

/// One operation of a rank's program, in the program's order.
struct ScheduleLine {
  std::size_t number = 0;  ///< number of the operation, from 1
  std::string stream, kind, after, what;
  double flops = 0;
  double bytes = 0;   ///< traffic of local memory, size of a message, or bytes sent in a modelled collective
  double memory = 0;  ///< bytes of device memory that it allocates; negative: frees
  int peer = -1;      ///< peer rank of a message
};
struct Schedule {
  std::vector<ScheduleLine> lines;  ///< the first `most` operations
  std::size_t operations = 0;       ///< number of all operations
};
Schedule schedule(const Plan&, int rank, std::size_t most);

/// The position of a rank: its coordinates in the mesh, and its device.
struct MeshRank {
  int rank = 0, node = 0;
  Coordinates coordinates;
  int expert = 0;         ///< number of the shard of experts that it stores
  int expert_tensor = 0;  ///< number of the tensor shard of each of these, if experts have tensor ranks of their own
  std::string device;     ///< "node0/gpu3"
};
std::vector<MeshRank> mesh(const Scenario&);

/// Links of equal kind, ends, rate and latency. Each direction counts as a link.
struct LinkClass {
  std::string kind, from, to;  ///< kinds of link and of devices
  BytesPerSecond rate;
  Picoseconds latency;
  int count = 0;
  std::string example;
  std::vector<LinkId> links;
};
std::vector<LinkClass> link_classes(const DeviceGraph&);
/// The route of a message between two ranks on an idle machine.
struct RouteView {
  std::string what;  ///< "within a node"
  int from = 0, to = 0;
  std::vector<std::string> hops;  ///< devices, both ends included
  std::string bottleneck_link, bottleneck_kind;
  BytesPerSecond rate;
  Picoseconds latency;   ///< latency of wires and software
  Picoseconds software;  ///< part of the latency that software causes
};
struct MachineView {
  std::vector<std::pair<std::string, int>> devices;  ///< number of devices of each kind
  std::vector<LinkClass> links;
  std::vector<RouteView> routes;
};
MachineView machine_view(const Scenario&);
/// Returns true if NCCL's messages to another rail of another node first go by NVLink to the GPU on that rail (PXN).
bool uses_pxn(const Scenario&);
RouteView route_view(const ClusterMachine&, std::string what, int from, int to);
nlohmann::ordered_json to_json(const RouteView&);
/// Writes ranks as ranges: "0-7, 64, 72 … 120". A range has neighbours or equal steps; at most six ranges are written.
std::string ranks_in_words(const std::vector<int>&);

/// The equivalence classes of ranks, each of which is simulated once (sim/folding).
struct FoldView {
  struct Class {
    int rank = 0;  ///< the first member, which is simulated
    int size = 1;
    std::string members;  ///< "0-7, 64-71"
    std::string device;   ///< device of the first member
  };
  int ranks = 0;
  std::vector<Class> classes;
  int links = 0;                     ///< number of classes of links that messages cross
  std::vector<std::string> reasons;  ///< the differences that first separated classes
  std::string unfolded_reason;       ///< why every rank is simulated; "": ranks are folded
};
FoldView fold_view(const Scenario&);

nlohmann::ordered_json to_json(const FoldView&);
nlohmann::ordered_json to_json(const Schedule&);
nlohmann::ordered_json to_json(const std::vector<MeshRank>&);
nlohmann::ordered_json to_json(const MachineView&);

/// One rank of a scenario: its position, its groups and peers, and the links to them.
struct RankView {
  MeshRank place;
  int simulated = 0;            ///< the simulated rank of its equivalence class
  int class_size = 1;           ///< size of its equivalence class
  std::string unfolded_reason;  ///< why no ranks are folded; "": they are
  /// A group in which the rank communicates, and its route to the next member.
  struct Group {
    std::string what;
    std::vector<int> members;
    RouteView next;
  };
  std::vector<Group> groups;
  std::vector<RouteView> peers;  ///< routes to ranks outside its groups: neighbours in the pipeline
};
/// Throws UserError if the scenario has no such rank.
void require_rank(const Scenario&, int rank);
/// Throws UserError if the scenario has no such rank.
RankView rank_view(const Scenario&, const Plan&, int rank);
nlohmann::ordered_json to_json(const RankView&);

/// The operations of a rank in a step, taken from the simulated rank of its equivalence class. Consecutive operations
/// of one name on a stream are one row.
struct RankTimeline {
  struct Row {
    std::string stream, what;
    double begin = 0, end = 0;  // s
    int operations = 0;
  };
  std::vector<Row> rows;  ///< sorted by begin
};
/// Throws UserError if the scenario has no such rank.
RankTimeline rank_timeline(const Scenario&, const Plan&, int rank);

}  // namespace trainyard
