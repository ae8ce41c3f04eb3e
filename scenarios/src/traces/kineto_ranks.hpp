#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/traces/chakra.hpp"
#include "strategies/plan/mesh.hpp"

namespace trainyard {

/// Settings of the replay of a trace of PyTorch's profiler.
struct KinetoOptions {
  std::optional<int> step = {};  ///< number of the ProfilerStep; no value: see read_kineto_step
  int ranks = 0;                 ///< number of ranks; 0: the trace's world_size
  /// Number of ranks to which the groups that reach the last recorded rank grow; 0: all keep their sizes.
  int scaled_ranks = 0;
  /// Exchanges without operation or size take their recorded time; false: they are refused.
  bool keeps_undescribed = false;
  /// The layout of the scenario's ranks. It says which ranks a group has if the trace does not.
  std::optional<Mesh> mesh = {};
};

/// A step that PyTorch's profiler recorded, with the nodes of all ranks.
struct KinetoStep {
  std::vector<std::vector<ChakraNode>> ranks;
  std::vector<std::string> files;                  ///< for each rank the trace of its nodes
  std::map<std::string, std::vector<int>> groups;  ///< ranks of each communicator, by the name that nodes have
  std::string step;                                ///< "ProfilerStep#5, one of 3"; "": the trace marks no steps
  double mean_step = 0;  ///< mean time of the marked steps of the slowest rank, s; 0: the traces mark none
  double recorded = 0;   ///< s on the recorded machine from the first work of a GPU to the last; the slowest rank
  std::vector<std::string> notes;
};

/// Returns true if the path is a trace of PyTorch's profiler (.json, .json.gz) or a folder.
bool is_kineto(const std::filesystem::path&);

/// Reads the trace of one rank, or a folder with those of several. The step is one that all of them have: of the steps
/// with at least half as many works as the largest, the one of median time. A rank without a trace does what a rank of
/// its pipeline stage does, in groups at the same distances. `gpus`: number of GPUs of the machine. Throws UserError
/// with the file if something is missing, unknown or contradictory.
KinetoStep read_kineto_step(const std::filesystem::path&, const KinetoOptions&, int gpus);

}  // namespace trainyard
