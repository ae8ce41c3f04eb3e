#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/reading/figure.hpp"
#include "scenarios/running/failure_figures.hpp"
#include "scenarios/running/memory_advice.hpp"
#include "strategies/mechanisms/mechanism_figures.hpp"

namespace trainyard {

/// The answer to a scenario. Times in seconds, sizes in bytes.
struct Result {
  std::string scenario;
  double step_time = 0;
  double training_steps = 0, training_time = 0;  ///< of the whole training; 0 where its length is not said
  struct {
    double step_time = 0;  ///< of one device, given by the scenario: compute was measured; 0: modelled
    std::string source;
  } measured;
  std::string said_step;  ///< source of the step's time where it was said, not simulated: no breakdown, no memory
  std::optional<FailureStudy> failures;  ///< where the scenario has any
  double samples_per_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tflops_per_gpu = 0;  ///< model FLOPs (Network::model_flops_per_token) over time
  double mfu = 0;             ///< the same over the dense peak of the precision
  double hfu = 0;             ///< executed matrix FLOPs over the dense peak
  struct {
    double compute = 0;
    std::map<std::string, double> exposed_communication;  ///< by group
    double bubble = 0, optimizer = 0, input = 0;
    double framework = 0;  ///< host work that hides behind nothing
    double other = 0;      ///< not accounted for: below 1 % of the step
    int rank = 0;          ///< whose step this is: the one that ends last
  } breakdown;
  struct {
    double capacity = 0, peak = 0, parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
    int rank = 0;   ///< with the highest peak
    int stage = 0;  ///< of the pipeline, that it belongs to
  } memory;
  /// Of a pipeline: the fullest rank of each stage at its peak; bytes.
  struct StageMemory {
    int rank = 0;
    double peak = 0, parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
  };
  std::vector<StageMemory> stages;  ///< none where there is one stage
  struct {
    double capacity = 0;  ///< of the node; 0: not stated
    double peak = 0, parameters = 0, gradients = 0, optimizer = 0, buffers = 0;
    int node = 0;  ///< the fullest
  } host_memory;   ///< of all ranks of a node; peak 0: no offload
  struct {
    double capacity = 0, peak = 0;
    int node = 0;
  } drive;                                      ///< of all drives of a node
  bool fits = true;                             ///< GPUs, hosts and drives
  std::map<std::string, double> critical_path;  ///< seconds by resource
  std::string bottleneck;                       ///< resource with the largest share
  double bottleneck_share = 0;
  std::map<std::string, double> bytes_by_link_kind;
  double bytes_sent_per_rank_max = 0, bytes_total = 0;
  std::uint64_t operations = 0, messages = 0;
  std::uint64_t late_by_look_ahead = 0;
  int ranks = 0;
  struct {
    std::string algorithm, fidelity;
    int channels = 1;
    struct Tried {
      std::string algorithm;
      int channels = 1;
      double seconds = 0;
    };
    std::vector<Tried> tried;  ///< where the plan says `auto`: one collective of `tried_size` bytes alone
    double tried_size = 0;
  } all_reduce;  ///< algorithm empty: none
  ServerFigures servers;
  ReplicaFigures replicas;
  MechanismFigures of_mechanism() const { return {servers, replicas}; }
  int steps = 1, warm_steps = 0;  ///< that were looked at, of each rank, and that went before
  struct {
    bool used = false;
    double starved_share = 0;                  ///< of the step, that it would not take if all samples were on the GPUs
    double storage_busy = 0, decode_busy = 0;  ///< share of the time, of the busiest
    double read = 0;                           ///< bytes a step from the storage
    double from_cache = 0;                     ///< share of the samples that hosts have kept
    double host_bytes = 0;                     ///< of the fullest node: batches on their way, and the cache
  } input;                                     ///< where the scenario says how samples come
  double wall_s = 0;                           ///< printed on request only: it differs from run to run
  std::optional<Capacity> capacity;            ///< where it was asked for
  std::vector<FittingChange> changes;          ///< where it was asked for
};

nlohmann::json to_json(const Result&);
Result result_from_json(const nlohmann::json&);

/// One resource class made faster: the step time that simulating again gives.
struct WhatIf {
  std::string resource_class;
  double factor = 1;
  double step_time = 0;
  double goodput = 0, effective_step_time = 0;  ///< with failures and checkpoints; 0: not asked for
};

/// What `run --json` writes: the result, what-ifs and sources, keys with their units.
nlohmann::json report_json(const Result&, const std::vector<WhatIf>&, const Sources&, bool timing);

}  // namespace trainyard
