#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainyard {

/// Of parameter servers.
struct ServerFigures {
  int workers = 0;  ///< 0: there are none
  int servers = 0;
  std::string consistency;
  double largest_share = 0;              ///< of all bytes: the fullest server's
  double dropped_share = 0;              ///< of pushes: too late for their step
  std::map<std::string, double> waits;   ///< s a step, mean over workers, by what for
  int keys = 0;                          ///< as servers have them: parts, where keys are split
  std::map<std::string, double> shares;  ///< of all bytes, by server
  std::string rule;                      ///< optimizer, sum, mean
  int copies = 1;                        ///< of each key, on as many servers
  struct Stage {
    std::string name;
    double time = 0;  ///< s a step
  };
  std::vector<Stage> stages;  ///< of a step, where gradients are summed in nodes first
  bool used() const { return workers > 0; }
};

/// A figure that one mechanism alone has. A number may be missing: null in the answer.
using MechanismFigure = std::variant<std::int64_t, std::string, std::optional<double>>;

/// A key of the answer's `replicas`, as the mechanism that has it explains it.
struct MechanismFigureKind {
  const char* key;
  const char* words;
  MechanismFigure none;  ///< of its type
};

/// What a mechanism tells of a run besides what every run tells.
struct MechanismFigures {
  ServerFigures servers;
  /// How replicas of a whole model go on without the newest gradients of all others, where they do, by key.
  std::map<std::string, MechanismFigure> replicas;
  /// Pushes of keys to servers, or delayed gradients of ranks, by how many updates they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  double taught_share = 1;  ///< of samples: those whose gradients are not dropped
};

}  // namespace trainyard
