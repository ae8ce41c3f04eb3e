#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/studies/sweeps/study_shard.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// A model on so many nodes of a type, by the best plan that was found there.
struct SizeRow {
  std::string model, node;
  int nodes = 0, gpus = 0;
  std::int64_t batch = 0;             ///< samples of a step
  std::vector<std::int64_t> batches;  ///< that had plans and were compared by their time for a sample; empty: one alone
  std::string error;                  ///< why there is no such training; empty: there is one
  bool too_large = false;             ///< no plan fits into the GPUs
  bool refused = false;  ///< there is no plan at all: the batch does not divide, or what the reader refuses
  std::string plan;      ///< in words
  bool proved = false;   ///< no plan of the space is faster
  double headroom = 0;   ///< share of a GPU's memory that plans leave free
  double peak = 0;       ///< bytes of the fullest GPU
  bool meets = false;    ///< deadline and budget
  bool pareto = false;   ///< none is both faster and cheaper (without prices: takes fewer GPU-hours)
  double parameters = 0, tokens = 0;
  double step_time = 0, time = 0;  ///< s: of a step, of the training with failures and checkpoints
  double mfu = 0, goodput = 1;
  double gpu_hours = 0, energy = 0;  ///< energy in J, of the site; 0: not known
  double money = 0;                  ///< 0: no prices
  Node document;                     ///< the scenario with that plan
  bool good() const { return error.empty(); }
  double days() const { return time / 86400; }
};

/// Of a type of node the fewest that were looked at and meet the deadline.
struct SizeFewest {
  std::string model, node;
  int nodes = 0, unit = 1;  ///< a multiple of the unit
  int late = 0;             ///< the most below them that were looked at; none between has a plan. 0: none of fewer has
};

struct SizeAnswer {
  std::string scenario, currency;            ///< currency empty: no prices
  double days = 0, budget = 0;               ///< asked for; budget 0: none
  double work = 0;                           ///< operations that each search had at most; 0: no such limit
  double search_seconds = 0;                 ///< or wall time, s: then the answer is not repeatable
  std::string unfinished;                    ///< where a signal ended it; empty: it is whole
  std::vector<SizeRow> rows;                 ///< by model, type of node and nodes
  std::vector<SizeFewest> fewest;            ///< by type of node, where more than one unit is needed
  std::vector<std::string> left_out;         ///< types of node that were not looked at, and why
  std::optional<SizeRow> cheapest, fastest;  ///< of those that meet deadline and budget
  std::optional<SizeRow> nearest;            ///< where none does: the fastest, within the budget where one is
  std::optional<SizeRow> largest;            ///< of several models, the largest that meets both
  /// On the nodes of the cheapest, or else of the nearest: the best that fits without headroom, where that is faster.
  std::optional<SizeRow> without_headroom;
};

struct SizeOptions {
  std::vector<std::string>
      node_types;  ///< or chips, for all nodes that have them; empty: all of the catalog that can train it, and are
                   ///< priced where prices are given (TPUs: only where they are)
  std::vector<std::string> models;  ///< in place of the scenario's
  int gpus = 0;                     ///< so many, or the least nodes that have them; 0: as many as the deadline takes
  double days = 0, budget = 0;
  int unit = 0;                     ///< numbers of nodes are multiples of it; 0: of one
  double batch_tolerance = 0;       ///< share by which the batch may differ, to take less time for a sample
  double tokens_per_parameter = 0;  ///< tokens by the model's size (Hoffmann et al. 2022: 20); 0: as the scenario says
  /// Operations of the search for the plan of one cluster (see PlanSearchOptions::work); 0: kWorkOfCluster.
  double work = 0;
  double search_seconds = 0;       ///< instead: s of wall time for the plans of one cluster; 0: not asked for
  std::filesystem::path journal;   ///< what was found, to be resumed
  StudyShard shard = {};           ///< of models and types of node, the first varying slowest; the others are left out
  std::optional<double> headroom;  ///< share of a GPU's memory that plans leave free; unsaid: `default_headroom`
  std::function<void(const std::string&)> progress;
};

/// Some ten seconds of a processor.
constexpr double kWorkOfCluster = 5e7;

/// Which clusters train a scenario's model on its tokens in time: for each type of node the fewest that meet the deadline,
/// and the numbers that were looked at on the way (`find_fewest_nodes`). The scenario's plan says
/// batch, lengths and `training`, its `faults` what fails; its cluster counts for the fabric alone. Throws UserError.
SizeAnswer size_clusters(const Node& document, const std::string& name, const SizeOptions&);

const JsonFields<SizeAnswer>& size_fields();
/// A row as text, for the journal.
std::string to_text(const SizeRow&);
SizeRow size_row_from_text(const std::string&);

}  // namespace trainyard
