#pragma once
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/traces/comm_groups.hpp"
#include "scenarios/src/traces/trace_files.hpp"
#include "strategies/collectives/collective.hpp"
#include "strategies/collectives/library_model.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// How a trace is to be replayed.
struct ReplayOptions {
  std::filesystem::path prefix;           ///< of its files: PREFIX.RANK.et
  std::filesystem::path groups;           ///< of communicators; empty: PREFIX.groups.json, where there is one
  std::vector<int> dims;                  ///< see CommGroups
  std::vector<std::string> algorithms;    ///< "ring", or of one operation: "all_reduce=ring"; others: as NCCL does them
  Precision precision = Precision::bf16;  ///< of arithmetic whose time the trace does not state
  bool remote_memory = false;             ///< memory nodes move data to and from the host's memory
};

/// What the members of a communicator do together: an operation by an algorithm.
struct ReplayCollective {
  const Collective* algorithm = nullptr;
  CollectiveSettings settings;
};

/// A collective as one rank takes part in it.
struct ReplayCall {
  const ReplayCollective* what = nullptr;
  int communicator = 0, index = 0;  ///< of the rank among its members
  std::vector<int> peers;           ///< see peers_of
  std::uint16_t first_slot = 0, flow = 0;
};

/// One rank's trace, in the order in which its streams take its nodes.
struct RankReplay {
  std::vector<ChakraNode> nodes;
  std::vector<ReplayStep> steps;
  std::vector<ReplayCall> calls;
  std::vector<Actor> slots;
  std::vector<const GroupFlow*> flows;
  std::vector<std::string> streams;
};

/// A whole trace, checked and laid out on a machine.
///
/// Rule of streams: nodes of one stream run one after the other, those of different streams at the same time unless one
/// depends on the other. A node's stream is the one that its attribute `stream` names (on the host `tid`); without it
/// work of the GPU has one stream, memory nodes have one, the host has one, each communicator has one, and messages have
/// one for each peer and direction. On a stream nodes run in the order of the file, but none before what it depends on.
class ReplayPlan {
 public:
  /// Reads all files. Throws UserError naming file and node for what is missing, unknown, circular or contradictory.
  ReplayPlan(const ReplayOptions&, const ClusterMachine&);
  ReplayPlan(const ReplayPlan&) = delete;

  std::vector<RankReplay> ranks;
  const Communicator& communicator(int number) const { return groups_->all()[static_cast<std::size_t>(number)]; }
  std::size_t communicators() const { return groups_->all().size(); }
  /// What the members of a communicator exchange in their so-manieth collective: the most that one of them puts in.
  Bytes bytes_of(int number, std::uint32_t instance) const {
    return Bytes{meetings_[static_cast<std::size_t>(number)][instance].bytes};
  }
  std::size_t nodes() const;
  /// The error to expect of its modelled collectives; "": none is.
  std::string judged() const {
    if (!library_) return "";
    return library_->judged + (library_->scaled.empty() ? "" : "; outside what was fitted: " + library_->scaled);
  }

 private:
  /// One collective of a communicator: what the first rank that is read says of it.
  struct Meeting {
    Operation operation = Operation::all_reduce;
    double bytes = 0;
    int rank = 0;
    std::uint64_t node = 0;
    std::size_t members = 0;
  };
  const ReplayOptions& options_;
  const ClusterMachine& machine_;
  std::vector<bool> used_;               // which of the options' algorithms some collective goes by
  std::optional<LibraryModel> library_;  // once a collective asks for it
  std::unique_ptr<CommGroups> groups_;
  std::vector<std::vector<Meeting>> meetings_;  // by communicator
  std::map<std::tuple<int, Operation, int>, std::unique_ptr<ReplayCollective>>
      collectives_;             // by communicator and root
  std::deque<GroupFlow> ways_;  // of memory nodes

  std::string file(std::size_t rank) const { return trace_file(options_.prefix, rank); }
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

/// Of a collective node. Throws UserError for one that is unknown.
Operation operation_of(const ChakraNode&, const std::string& where);
/// The number that Chakra has for an operation; -1: none.
int chakra_number(Operation);
/// Bytes of the whole collective, as nccl-tests counts them, of what one of so many ranks puts in; and the other way.
double whole_bytes(Operation, double of_rank, std::size_t ranks);
double rank_bytes(Operation, double whole, std::size_t ranks);

}  // namespace trainyard
