#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/reading/read_jobs.hpp"
#include "scenarios/src/running/shared_run.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A job that runs beside the others. Times are in s.
struct JobAnswer {
  std::string name;
  std::vector<int> nodes;  ///< numbers of its nodes
  int leaves = 0;          ///< number of leaf switches of its nodes
  double packed_step = 0;  ///< step alone on the cluster, packed on the fewest leaf switches
  double alone_step = 0;   ///< step alone on its own nodes
  /// 80 % interval of the step alone. No value: the step has none. Nobody measured jobs that slow each other.
  std::optional<std::array<double, 2>> alone_interval;
  double step = 0;  ///< mean step while all jobs run
  double shortest = 0, longest = 0;
  int steps = 0;  ///< number of averaged steps
  /// Costs of a million tokens (samples if the network has none) while all jobs run: by rent and electricity, and of
  /// owning its nodes, always in use. In proportion to the step alone, with the power of that step. 0: no such prices.
  double per_million = 0, owned_per_million = 0;
  double per_joule = 0;  ///< tokens (or samples) a joule of the site, likewise; 0: not known
  /// Shares by which the step grows: through the placement, and through the other jobs (`slowdown`).
  double placement_cost() const { return alone_step / packed_step - 1; }
  double slowdown() const { return step / alone_step - 1; }
  double alone_per_million() const { return per_million / (1 + slowdown()); }  ///< `per_million` if the job runs alone
};

/// A link, or several that are alike, which more than one job uses.
struct ContendedLink {
  std::string name, kind;
  double links = 1;
  double use = 0;  ///< share of its rate
  /// By the name of the job: its use of the link, and see `JobLink`.
  std::vector<std::pair<std::string, double>> use_by_job, limits_job;
};

/// The nodes of a leaf switch, with their jobs.
struct LeafSwitch {
  std::string name;
  std::vector<std::optional<std::string>> jobs;  ///< indexed by node: name of its job. No value: it is free
};

struct SharingAnswer {
  std::string name, cluster;
  std::vector<JobAnswer> jobs;
  std::vector<ContendedLink> links;  ///< the fullest first
  std::vector<LeafSwitch> leaves;
  std::string currency;  ///< empty: there are no prices
  int ranks = 0, simulated_ranks = 0;
  std::string unfolded_reason;
};

struct SharingQuestion {
  int steps = 8;           ///< least number of averaged steps of each job
  std::uint64_t seed = 1;  ///< seed of fragmented placements
  Folding folding = Folding::automatic;
  bool progress = false;
};

/// Places the jobs: those with listed nodes first, then the others in their order. Nodes that have lost an adapter, a cable
/// or their leaf switch are taken only if the others are too few. Throws UserError if a job's nodes are no longer free.
std::vector<std::vector<int>> place_jobs(const SharedCluster&, const std::vector<DeviceId>& leaves, std::uint64_t seed);

/// Simulates each job alone on packed nodes, alone on its own nodes, and all jobs together.
SharingAnswer share_cluster(const SharedCluster&, const SharingQuestion&);

const JsonFields<SharingAnswer>& sharing_fields();

}  // namespace trainyard
