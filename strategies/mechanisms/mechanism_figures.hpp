#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
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

/// How replicas of a whole model go on without the newest gradients of all others, where they do.
struct ReplicaFigures {
  int delay = 0, local_steps = 0;
  std::string gossip;                  ///< the graph's name
  int neighbours = 0;                  ///< of a rank in a step, the most
  std::optional<double> spectral_gap;  ///< of gossip on a fixed graph; none: pairs are drawn
  bool used() const { return delay > 0 || local_steps > 0 || !gossip.empty(); }
};

/// What a mechanism tells of a run besides what every run tells.
struct MechanismFigures {
  ServerFigures servers;
  ReplicaFigures replicas;
  /// Pushes of keys to servers, or delayed gradients of ranks, by how many updates they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  double taught_share = 1;  ///< of samples: those whose gradients are not dropped
};

}  // namespace trainyard
