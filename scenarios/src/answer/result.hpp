#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/energy/energy.hpp"
#include "models/energy/prices.hpp"
#include "models/reading/figure.hpp"
#include "scenarios/src/answer/failure_result.hpp"
#include "sim/units.hpp"
#include "strategies/mechanisms/mechanism_figures.hpp"

namespace trainyard {

/// The largest sizes that a scenario's GPUs hold, all else as it is.
struct Capacity {
  Bytes memory;                               ///< of the GPU with the least
  std::int64_t largest_micro_batch_size = 0;  ///< samples; 0: not even one fits
  /// Layers like the model's own (each half of an encoder-decoder so many); 0: not even one fits. None where the model
  /// is not described by a number of layers.
  std::optional<std::int64_t> largest_num_hidden_layers;
  double largest_parameters = 0;  ///< of that model
};

/// A change of a plan, and what simulating it again gives.
struct FittingChange {
  std::string set;  ///< "plan.recompute=full"
  double peak = 0;  ///< bytes, of the fullest rank
  bool fits = false;
  double step_time = 0;  ///< s; 0: the whole step is too large to simulate again and again
};

/// One resource class made faster: the step time of the scenario with these fields changed.
struct WhatIf {
  std::string resource_class;
  double factor = 1;
  double step_time = 0;
  double goodput = 0, effective_step_time = 0;  ///< with failures and checkpoints; 0: not asked for
  double saves_share = 0;                       ///< of the step time as it is
  /// The step without it, s, where both are looked at for longer than the answer's steps; 0: the answer's.
  double compared_with = 0;
  double saves(double step_of_answer) const {
    return 1 - step_time / (compared_with > 0 ? compared_with : step_of_answer);
  }
  std::vector<std::string> sets = {};  ///< what was changed, as --set takes it: "cluster.hca.rate=400 Gbit/s"
};

/// The answer to a scenario. Times in seconds, sizes in bytes.
struct Result {
  std::string scenario;
  double step_time = 0;
  /// Where steps differ: half the width of the 95 % confidence interval of their mean, s. None of one step alone.
  std::optional<double> step_time_interval;
  std::optional<double> flow_step_time;          ///< by packets: of the same step by the default transport
  double training_steps = 0, training_time = 0;  ///< of the whole training; 0 where its length is not given
  /// What the training does besides its steps, of which `training_time` has `time` each.
  struct Phase {
    std::string name;
    double time = 0, times = 1;
  };
  std::vector<Phase> phases;
  double alone_time = 0;  ///< of rank 0 after all other ranks have ended; 0: they end together
  struct Measured {
    double step_time = 0;  ///< of one device, given by the scenario: compute was measured; 0: modelled
    std::string source;
  } measured;
  /// Source of a step time that the scenario prescribes; empty: it is simulated. A prescribed step has no breakdown and
  /// no memory.
  std::string step_time_source;
  std::optional<FailureResult> failures;  ///< where the scenario has any
  double samples_per_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tflops_per_gpu = 0;      ///< model FLOPs (Network::model_flops_per_token) over time
  double mfu = 0;                 ///< the same over the dense peak of the precision
  double mfu_with_attention = 0;  ///< with Network::attention_flops_per_token besides; 0: there is no attention
  double hfu = 0;                 ///< executed matrix FLOPs over the dense peak
  struct Breakdown {
    double compute = 0;
    std::map<std::string, double> exposed_communication;  ///< by group
    double compression = 0;                               ///< kernels that encode gradients and decode them
    double bubble = 0, optimizer = 0, input = 0;
    double framework = 0;  ///< host work that hides behind nothing
    double other = 0;      ///< not accounted for: below 1 % of the step
    int rank = 0;          ///< whose step this is: the one that ends last, or of the pipeline's stage that waits least
    double step_time = 0;  ///< of that rank, the sum of all parts; workers out of step have their own
  } breakdown;
  struct Memory {
    double capacity = 0, peak = 0, parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
    int rank = 0;   ///< with the highest peak
    int stage = 0;  ///< of the pipeline, that it belongs to
  } memory;
  /// What a rank of a pipeline stage holds at its peak; bytes.
  struct StageMemory {
    int rank = 0;
    double peak = 0, parameters = 0, gradients = 0, optimizer = 0, activations = 0, buffers = 0;
  };
  struct Stage {
    int layers = 0;  ///< of the network, embedding and head among them
    Breakdown
        breakdown;  ///< of the stage's last rank to finish; what is left of the step is bubble, so that it sums to it
    StageMemory memory;  ///< of its fullest rank
  };
  std::vector<Stage> stages;  ///< of a pipeline; none where there is one stage
  std::vector<StageMemory> stage_memory() const {
    std::vector<StageMemory> all;
    for (const Stage& stage : stages) all.push_back(stage.memory);
    return all;
  }
  struct HostMemory {
    double capacity = 0;  ///< of the node; 0: not stated
    double peak = 0, parameters = 0, gradients = 0, optimizer = 0, buffers = 0;
    double activations = 0;  ///< on their way from a forward to a backward pass
    double input = 0;        ///< batches on their way, and the cache
    int node = 0;            ///< the fullest
    bool offloads() const { return peak > input; }
  } host_memory;  ///< of all ranks of a node; peak 0: neither offload nor an input pipeline
  struct Drive {
    double capacity = 0, peak = 0;
    int node = 0;
  } drive;  ///< of all drives of a node
  /// Neighbouring actors (ranks, servers) that hold, send and receive the same; bytes.
  struct ActorUse {
    std::string name;  ///< "rank 0", "ranks 1-7", "server 0"
    int count = 1;
    double memory = 0;              ///< peak of each
    double sent = 0, received = 0;  ///< by each in a step
  };
  std::vector<ActorUse> actors;                 ///< where the mechanism's ranks are not alike
  bool fits = true;                             ///< GPUs, hosts and drives
  std::map<std::string, double> critical_path;  ///< seconds by resource
  /// That as (seconds, resource), the largest share first; equals by name.
  std::vector<std::pair<double, std::string>> shares() const {
    std::vector<std::pair<double, std::string>> all;
    for (const auto& [resource, seconds] : critical_path) all.emplace_back(seconds, resource);
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    return all;
  }
  std::string bottleneck;  ///< resource with the largest share
  double bottleneck_share = 0;
  std::map<std::string, double> bytes_by_link_kind;
  double bytes_sent_per_rank_max = 0, bytes_total = 0;
  std::uint64_t operations = 0, messages = 0;
  std::uint64_t late_by_look_ahead = 0;
  int ranks = 0;
  int idle_devices = 0;  ///< of the cluster, that the plan gives no work
  int simulated_ranks = 0;
  std::string unfolded;  ///< why every rank was simulated
  struct AllReduce {
    std::string algorithm, fidelity;
    int channels = 1;
    /// A candidate of `algorithm: auto`: one collective of `size` bytes alone.
    struct Candidate {
      std::string algorithm;
      int channels = 1;
      double size = 0, seconds = 0;
    };
    std::vector<Candidate> tuned;  ///< the fastest first
  } all_reduce;                    ///< algorithm empty: none
  struct Compression {
    std::string name;               ///< in words; empty: gradients are exchanged whole
    double dense = 0, sent = 0;     ///< bytes of gradients, and what a rank puts into exchanges in their place, a step
    double encode = 0, decode = 0;  ///< s a step, of kernels on the rank that the breakdown describes
    double ratio() const { return dense / sent; }
  } compression;
  FiguresByKey servers, replicas;
  /// Pushes of keys to servers, or delayed gradients of ranks, by how many updates they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  /// The last three, as the mechanism tells them.
  MechanismFigures of_mechanism() const { return {servers, replicas, staleness}; }
  int steps = 1, warm_steps = 0;  ///< simulated steps that the figures are of, and warm-up steps before them
  struct Input {
    double starved_share = 0;                  ///< of the step: time that it would not take with all samples on GPUs
    double storage_busy = 0, decode_busy = 0;  ///< share of the time, of the busiest
    double read = 0;                           ///< bytes a step from the storage
    double from_cache = 0;                     ///< share of the samples that hosts have cached
    double host_bytes = 0;                     ///< of the fullest node: batches on their way, and the cache
  };
  std::optional<Energy> energy;  ///< where the power of the GPUs is stated, and the step is simulated
  /// Of the site, for the whole training, with what failures cost, J; 0: its length is not given.
  double training_energy() const;
  std::optional<Money> money;  ///< where the scenario has prices
  std::optional<Input> input;  ///< where the scenario describes the input pipeline
  /// Of the training, with what failures cost; s.
  double whole_time() const { return failures ? failures->end : training_time; }
  double wall_s = 0;                   ///< of the simulation; 0: not asked for
  std::optional<Capacity> capacity;    ///< where it was asked for
  std::vector<FittingChange> changes;  ///< where it was asked for
};

/// One step of the critical path, in words. Times in seconds.
struct PathLine {
  double begin = 0, end = 0;
  std::string actor, name, resource;
};

/// All that `run --json` and `explain --json` write.
struct Answer {
  Result result;
  std::vector<WhatIf> what_ifs;
  Sources sources;
  std::optional<std::vector<PathLine>> path;                   ///< of `explain`
  std::optional<std::vector<FailureWhatIf>> failure_what_ifs;  ///< of `explain`
};

nlohmann::json to_json(const Result&);
Result result_from_json(const nlohmann::json&);
std::string to_text(const Result&);
Result result_from_text(const std::string&);

/// `timing`: with the wall time, which differs from run to run.
nlohmann::json answer_json(Answer, bool timing);

/// The table of the answer's fields: all that is written, read, explained to users, and shown in a sweep's columns.
const JsonFields<Result>& result_fields();
JsonFields<Energy> energy_fields();
JsonFields<Money> money_fields();
const JsonFields<Answer>& answer_fields();

}  // namespace trainyard
