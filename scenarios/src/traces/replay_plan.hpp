#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/traces/kineto_ranks.hpp"
#include "scenarios/src/traces/trace_files.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/library_model.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// The input files and settings of a replay.
struct ReplayOptions {
  /// Prefix of the files of a Chakra trace (PREFIX.RANK.et), or the trace of PyTorch's profiler (see is_kineto).
  std::filesystem::path prefix;
  KinetoOptions kineto;
  std::filesystem::path groups;           ///< file of communicators; empty: PREFIX.groups.json if it exists
  std::vector<int> dims;                  ///< see CommGroups
  std::vector<std::string> algorithms;    ///< "ring", or for one operation "all_reduce=ring"; default: NCCL's
  Precision precision = Precision::bf16;  ///< precision of arithmetic whose time the trace does not state
  bool remote_memory = false;             ///< memory nodes move data to and from the host's memory
};

/// A collective operation of a communicator: its algorithm and settings.
struct ReplayCollective {
  const Collective* algorithm = nullptr;
  CollectiveSettings settings;
};

/// One rank's part in a collective.
struct ReplayCall {
  const ReplayCollective* what = nullptr;
  int communicator = 0, index = 0;  ///< `index`: the rank's position among the members
  std::vector<int> peers;           ///< see peers_of
  std::uint16_t first_slot = 0, flow = 0;
};

/// One rank's trace, ordered as its streams execute the nodes.
struct RankReplay {
  std::vector<ChakraNode> nodes;
  std::vector<ReplayStep> steps;
  std::vector<ReplayCall> calls;
  std::vector<Actor> slots;
  std::vector<const GroupFlow*> flows;
  std::vector<std::string> streams;
};

/// A complete trace, checked and laid out on a machine.
///
/// Rule of streams: nodes of one stream run one after the other, those of different streams at the same time unless one
/// depends on the other. A node's attribute `stream` (on the host `tid`) names its stream. Without this attribute, work
/// of the GPU has one stream, memory nodes have one, the host has one, each communicator has one, and messages have one
/// for each peer and direction. On a stream, nodes run in the order of the file, but no node runs before its
/// dependencies.
class ReplayPlan {
 public:
  /// Reads all files. Throws UserError with file and node if something is missing, unknown, circular or contradictory.
  ReplayPlan(const ReplayOptions&, const ClusterMachine&);
  ReplayPlan(const ReplayPlan&) = delete;

  std::vector<RankReplay> ranks;
  /// The recordings of the profiler, without nodes and groups. No value: it is a Chakra trace.
  std::optional<KinetoStep> recorded;
  const Communicator& communicator(int number) const {
    return groups_->communicators()[static_cast<std::size_t>(number)];
  }
  std::size_t communicators() const { return groups_->communicators().size(); }
  /// Returns the size of a communicator's collective number `instance`: the largest input of any member.
  Bytes bytes_of(int number, std::uint32_t instance) const {
    return Bytes{collective_calls_[static_cast<std::size_t>(number)][instance].bytes};
  }
  std::size_t nodes() const;
  /// The expected error of the modelled collectives; "": none is modelled.
  std::string expected_error() const {
    if (!library_) return "";
    return library_->errors.in_words(in_nodes_, between_nodes_) +
           (library_->scaled.empty() ? "" : "; outside what was fitted: " + library_->scaled);
  }

 private:
  /// One collective of a communicator, as the first rank that was read states it.
  struct CollectiveCall {
    Operation operation = Operation::all_reduce;
    double bytes = 0;
    int rank = 0;
    std::uint64_t node = 0;
    std::size_t members = 0;
  };
  const ReplayOptions& options_;
  const ClusterMachine& machine_;
  std::vector<std::string> files_;                 // for each rank
  std::vector<bool> used_;                         // for each algorithm in the options: some collective uses it
  std::optional<LibraryModel> library_;            // no value: no collective has needed it yet
  bool in_nodes_ = false, between_nodes_ = false;  // modelled collectives run inside nodes, and between nodes
  std::unique_ptr<CommGroups> groups_;
  std::vector<std::vector<CollectiveCall>> collective_calls_;  // collectives of each communicator
  /// Collectives by communicator, operation and root.
  std::map<std::tuple<int, Operation, int>, std::unique_ptr<ReplayCollective>> collectives_;
  std::deque<GroupFlow> memory_routes_;  // routes of memory nodes

  const std::string& file(std::size_t rank) const { return files_[rank]; }
  std::vector<std::vector<ChakraNode>> read_nodes();
  void lay_out(std::size_t rank);
  void lay_out_collective(std::size_t rank, ReplayStep&, std::map<int, std::uint32_t>& met);
  void meet(std::size_t rank, int communicator, Operation, const ReplayStep&);
  void lay_out_message(std::size_t rank, ReplayStep&);
  void lay_out_memory(std::size_t rank, ReplayStep&);
  const ReplayCollective& collective(int communicator, Operation, int root);
  const Collective* chosen_algorithm(Operation);
  void require_used() const;
  void require_all_met() const;
  void require_all_received() const;
};

/// Converts one rank's input to the bytes of the collective, as nccl-tests counts them.
double whole_bytes(Operation, double of_rank, std::size_t ranks);
/// Converts the bytes of the collective, as nccl-tests counts them, to one rank's input.
double rank_bytes(Operation, double collective_bytes, std::size_t ranks);

}  // namespace trainyard
