#pragma once
#include <array>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/energy/prices.hpp"
#include "scenarios/src/reading/read_jobs.hpp"
#include "scenarios/src/running/site_room.hpp"
#include "scenarios/src/studies/fleet/queue.hpp"

namespace trainyard {

/// A training of the fleet on one number of nodes, with its step from the simulator. Times are in s.
struct FleetStep {
  std::string training;
  int nodes = 0;
  double step_time = 0;
  std::optional<std::array<double, 2>> likely_step_times;  ///< see Result
  double risk = 0;                                         ///< probability that a device runs out of memory
  double alone_time = 0;        ///< the whole training with its checkpoints, if nothing interrupts it
  double watts_a_node = 0;      ///< mean power of the site for each node in a step, W; 0: not known
  double tokens = 0;            ///< tokens of the whole training; 0: the network has none
  double tokens_per_joule = 0;  ///< tokens a joule of the site in its steps; 0: not known
  QueueSize size;
};

/// An arrival in the shown run. Times are in s from the beginning.
struct FleetRow {
  std::string name;  ///< "pretraining" or "tuning 3"
  std::size_t training = 0;
  int priority = 0;
  double arrival = 0, due = 0;  ///< due: latest end in time
  QueueOutcome outcome;
  double money = 0;  ///< its share of the cost of the cluster, by node-hours; 0: there are no prices
  /// It has no deadline, and would end after the horizon on any number of nodes.
  bool is_too_late_to_count = false;
  bool in_time() const { return outcome.end.value <= due || is_too_late_to_count; }
};

/// All arrivals of one training, over all runs.
struct FleetGroup {
  std::string training;
  int arrivals = 0;                      ///< number of arrivals in the first run
  double in_time = 1;                    ///< share of the arrivals that end in time
  double mean_wait = 0;                  ///< s from arrival to start
  double mean_time = 0;                  ///< s from arrival to end
  double longest_time = 0;               ///< s
  double failures = 0, preemptions = 0;  ///< mean numbers of an arrival
  double money = 0;  ///< share of all its arrivals of the shown run in the cost of the cluster; 0: there are no prices
  double per_million = 0;       ///< that cost for a million tokens of these arrivals; 0: no prices, or no tokens
  double tokens_per_joule = 0;  ///< tokens of these arrivals a joule, at the site, while they have nodes; 0: not known
};

/// Node-hours of the cluster within the horizon: means over the runs. They sum to nodes × horizon.
struct FleetUse : TrainingTime {
  double idle = 0, spare = 0, repair = 0;
  double sum() const { return on_nodes() + idle + spare + repair; }
};

/// The cost of the cluster for the horizon by one way to pay.
struct FleetCost {
  std::string terms;  ///< "on demand", "reserved 12 months", "purchase"
  double money = 0;
  double node_hour = 0;         ///< that cost over all node-hours
  double years = 0, total = 0;  ///< years of depreciation and the cost of owning it for them; 0: it is a rent
};

/// A number of nodes that was tried.
struct FleetTrial {
  int nodes = 0, spares = 0;
  int late = 0;  ///< number of trainings that are late in the first run in which any is; 0: none is late in all runs
};

struct FleetAnswer {
  std::string name, cluster, node;
  int nodes = 0, gpus = 0, spares = 0;
  QueuePolicy policy = QueuePolicy::fifo;
  bool backfill = false;
  double grace = 0;             ///< s; 0: a stopped training writes no checkpoint
  double horizon = 0;           ///< s
  int runs = 1, good_runs = 0;  ///< good: no training is late
  int shown_run = 1;            ///< the first run with a late training; 1: no run has any
  /// Number of runs that are good also if all steps take as long as their likely intervals end. No value: no step has
  /// an interval.
  std::optional<int> good_slow_runs;
  std::vector<FleetStep> steps;
  std::vector<FleetGroup> groups;
  std::vector<FleetRow> rows;
  FleetUse use;
  double mean_queue = 0;               ///< mean number of waiting trainings over the runs
  int longest_queue = 0;               ///< largest number of waiting trainings in any run
  std::string currency;                ///< empty: there are no prices
  std::vector<FleetCost> costs;        ///< the least first
  std::optional<Ownership> ownership;  ///< parts of a purchase, and the rents beside it. No value: it has no price
  bool is_chosen = false;              ///< the number of nodes is searched
  std::vector<FleetTrial> tries;       ///< empty: no other number of nodes was tried
  /// If these nodes are given and not enough: the fewest of those tried with which no training is late, as a search
  /// finds them.
  std::optional<FleetTrial> enough;
  /// If these are fewer than the given nodes: the fewest from the given number on.
  std::optional<FleetTrial> enough_above;
  /// If the nodes are searched: those of the next larger numbers with which some training is late.
  std::vector<int> late_on_more_nodes;
  std::optional<SiteLimit> room;  ///< the most nodes that the site has room for. No value: it has no limits
  std::string hopeless;           ///< a training that is late on any number of nodes; empty: there is none
  std::string verdict, limit;     ///< limit: training with the least slack, and where its time goes
  std::string unfinished;         ///< says what the search tried until a signal ended it; empty: all
  std::string left_out;           ///< numbers of nodes that were left out, and why; empty: none
  bool is_enough() const { return good_runs == runs; }
  /// Returns the row that has the least of its time left when it ends, or is late by most of it. Null: there is none.
  const FleetRow* tightest() const;
};

struct FleetQuestion {
  std::optional<int> nodes = {}, spares = {};  ///< No value: those of the file
  bool choose = false;                         ///< search the fewest nodes with which no training is late
  int most_nodes = 0;   ///< largest number of nodes of the search; 0: as many as all trainings need at once
  int most_spares = 2;  ///< largest number of spares of the search
};

/// Simulates a step of each training on each possible number of nodes, and then the queue over the horizon. Throws
/// UserError with the place.
FleetAnswer answer_fleet(const FleetFile&, const FleetQuestion& = {});

/// Adds the costs of the cluster and of each training by the prices of the file, and the energy of their tokens.
/// `watt_seconds`: energy of the site within the horizon, J; 0: not known. Throws UserError if a price is missing.
void add_fleet_costs(const FleetFile&, double watt_seconds, FleetAnswer&);

/// Writes the sentences `verdict` and `limit`.
void judge_fleet(FleetAnswer&);

nlohmann::ordered_json fleet_json(const FleetAnswer&);
/// Returns the rows of the answer as a table.
std::string fleet_csv(const FleetAnswer&);
/// Returns a picture: a lane for each training, and the nodes in use over time.
std::string fleet_picture(const FleetAnswer&);

/// Writes ascending numbers as ranges: "17 to 63, 65".
std::string ranges_in_words(const std::vector<int>& numbers);

const std::vector<std::string>& queue_policy_names();

}  // namespace trainyard
