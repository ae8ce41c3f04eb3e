#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/traces/chakra.hpp"
#include "sim/observer.hpp"

namespace trainyard {

/// Writes a step as it was simulated as a Chakra execution trace, a file a rank: every operation with its duration, its
/// sizes and what it waited for. Replayed on the same cluster it takes as long. Ranks must be simulated one by one.
class ChakraExport : public Observer {
 public:
  /// The run must outlive it.
  explicit ChakraExport(const StepRun& run) : run_(run), ranks_(static_cast<std::size_t>(run.scenario.ranks())) {}

  Interest interest() const override { return {.level = Level::ops, .transfers = false}; }
  /// Throws UserError for what a Chakra trace has no node for: actors that are no ranks, groups that meet without bytes.
  void finished(const OpRun&) override;
  /// PREFIX.RANK.et of each rank, and PREFIX.groups.json. Throws UserError where one cannot be written.
  void write(const std::filesystem::path& prefix) const;

 private:
  struct Rank {
    std::string file;
    std::uint64_t nodes = 0;
    std::array<std::vector<std::uint64_t>, kMaxStreams> ended;  // ids, by stream
  };
  const StepRun& run_;
  std::vector<Rank> ranks_;
  std::map<std::pair<Lane, Actor>, int> groups_;          // by lane and first member: their names
  std::map<std::tuple<Actor, Actor, Tag>, double> tags_;  // of messages; Chakra's have 32 bits

  void describe(const OpRun&, ChakraNode&);
  void describe_message(const OpRun&, ChakraNode&);
  void describe_join(const OpRun&, ChakraNode&);
};

/// The step that is simulated with these options is written so, every rank simulated. Throws UserError for steps that are
/// too many, or whose ranks decide as they go.
void export_chakra(const Plan&, const std::filesystem::path& prefix, SimulateOptions&);

}  // namespace trainyard
