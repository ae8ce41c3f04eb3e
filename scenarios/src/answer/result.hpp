#pragma once
#include <array>
#include <cmath>
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
#include "scenarios/src/answer/post_training_result.hpp"
#include "sim/units.hpp"
#include "strategies/mechanisms/mechanism_figures.hpp"

namespace trainyard {

/// The largest sizes that fit on a scenario's GPUs, with everything else unchanged.
struct Capacity {
  Bytes memory;                               ///< memory of the GPU with the least
  bool counts_packs = false;                  ///< micro-batches are numbers of packs, as those of a loop
  std::int64_t largest_micro_batch_size = 0;  ///< samples, in a step that is a multiple of it; 0: not even one fits
  /// Samples: the largest micro-batch that divides the step's samples and is at no risk to run out of memory
  /// (`fits_in_words` says yes); 0: none is.
  std::int64_t safe_micro_batch_size = 0;
  /// Number of layers like the model's own (in each half of an encoder-decoder); 0: not even one fits. No value: the
  /// model is not described by a number of layers.
  std::optional<std::int64_t> largest_num_hidden_layers;
  double largest_parameters = 0;  ///< number of parameters of the model with that many layers
};

/// A change of a plan, and its effect in a new simulation.
struct FittingChange {
  std::string set;  ///< "plan.recompute=full"
  Bytes peak;       ///< on the fullest rank
  bool fits = false;
  Seconds step_time;  ///< 0: not simulated, because the step is too large
  double risk = 0;    ///< probability that a device runs out of memory
  std::string
      lacks;  ///< "host memory", "room on the drives", "GPU memory": the first that is too small; "": the plan fits
};

/// Returns to / from - 1. A change below a billionth is rounding and counts as 0.
inline double relative_change(double from, double to) {
  const double change = to / from - 1;
  return std::abs(change) < 1e-9 ? 0 : change;
}

/// The effect of making one resource class faster: the step time of the scenario with these fields changed.
struct WhatIf {
  std::string resource_class;
  double factor = 1;  ///< factor by which the class is faster
  Seconds step_time;  ///< that of a step, or of what `time_of` says
  enum class TimeOf : std::uint8_t { step, loop_step, generation } time_of = TimeOf::step;
  double goodput = 0;                ///< with failures and checkpoints; 0: not requested
  Seconds effective_step_time = {};  ///< with failures and checkpoints; 0: not requested
  std::string goodput_refused = {};  ///< why a training with this step and the failures is refused; "": it is not
  double saves_share = 0;            ///< share of the unchanged step time that is saved
  /// Step time without the change, averaged over as many steps as `step_time`. 0: it is the answer's step time.
  Seconds compared_with = {};
  double saves(Seconds step_of_answer) const {
    return 0 - relative_change((compared_with > Seconds{} ? compared_with : step_of_answer).value, step_time.value);
  }
  std::vector<std::string> sets = {};  ///< the changes, as --set takes them: "cluster.hca.rate=400 Gbit/s"
};

/// A what-if whose changed fields the scenario refuses.
struct RefusedWhatIf {
  std::string resource_class;
  double factor = 1;
  std::string reason;  ///< the error
};

/// Collectives among more GPUs of a node than were measured: their times are extrapolated.
struct ExtrapolatedCollectives {
  int gpus = 0;           ///< the most GPUs of a node that a group of ranks has
  int measured_gpus = 0;  ///< the most GPUs of a node that were measured
};

/// Step times over further draws of slow-downs.
struct DrawnSteps {
  Seconds mean, half_width;  ///< the mean, and half the width of its 95 % confidence interval
  Seconds low, high;         ///< 90 % of steps lie between
  int draws = 0;             ///< number of further steps
};

/// The answer to a scenario. Maps and lists of plain numbers hold seconds or bytes, as their names say.
struct Result {
  // Results are copied and destroyed in many places, so these functions are compiled once.
  Result() = default;
  Result(const Result&);
  Result(Result&&) noexcept;
  Result& operator=(const Result&);
  Result& operator=(Result&&) noexcept;
  ~Result();

  std::string scenario;
  Seconds step_time;
  /// Time that what-ifs shorten and scenarios are compared by: that of a step, of a loop the loop's step, and of engines
  /// that answer prompts the time until the last answer ends.
  Seconds main_time() const {
    return post_training ? post_training->step_time : generation ? generation->engines.generation : step_time;
  }
  /// Half the width of the 95 % confidence interval of the mean step time. No value: all steps are alike.
  std::optional<Seconds> step_time_interval;
  std::optional<DrawnSteps> drawn_steps;  ///< with shared draws
  /// The interval that holds the step time of the real machine with a probability of 80 %, s. No value: nothing is
  /// known of such steps, or the scenario states the time.
  std::optional<std::array<double, 2>> likely_step_times;
  /// Step times at the fast and the slow end of the ranges of announced hardware. No value: no figure is a range.
  std::optional<std::array<double, 2>> announced_step_times;
  /// The mean error to expect of `step_time`, as a share, by the same doubt as the interval.
  std::optional<double> expected_error;
  std::optional<ExtrapolatedCollectives> extrapolated;  ///< No value: a node has no larger group than was measured
  std::optional<Seconds> flow_step_time;                ///< with packets: the same step by the default transport
  double training_steps = 0;  ///< steps of the whole training or loop; 0: its length is not given
  Seconds training_time;      ///< time of these steps
  /// A phase of the training besides its steps. It occurs `times` times in `training_time` and takes `time` each.
  struct Phase {
    std::string name;
    Seconds time;
    double times = 1;
  };
  std::vector<Phase> phases;
  Seconds alone_time;  ///< time that rank 0 works after all other ranks have ended; 0: they end together
  struct MeasuredValues {
    Seconds step_time;  ///< measured step time of one device, from the scenario; 0: compute is modelled
    std::string source;
  } measured;
  /// Source of a step time that the scenario states; empty: the step is simulated. A stated step has no breakdown and
  /// no memory.
  std::string step_time_source;
  std::optional<FailureResult> failures;  ///< No value: the scenario has no failures or checkpoints
  double samples_per_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double tflops_per_gpu = 0;  ///< model FLOPs (Network::model_flops_per_token) over time
  double mfu = 0;  ///< `tflops_per_gpu` over the dense peak of the precision; of bf16 for products in fp8 and narrower
  double mfu_with_attention = 0;  ///< MFU with Network::attention_flops_per_token added; 0: there is no attention
  double hfu = 0;                 ///< executed matrix FLOPs over the dense peak
  struct Breakdown {
    Seconds compute;
    std::map<std::string, double> exposed_communication;  ///< indexed by kind of group
    Seconds compression;                                  ///< kernels that encode and decode gradients
    Seconds bubble, optimizer, input;
    Seconds framework;  ///< waits for the host: its own work, and launches that kernels wait for
    Seconds other;      ///< the rest, below 1 % of the step
    Seconds joining;    ///< the part of `bubble` in which collectives wait for ranks that have not begun them
    int rank = 0;       ///< the described rank: it ends last, or is in the pipeline stage that waits least
    Seconds step_time;  ///< step time of that rank, the sum of all parts; workers out of step have their own
  } breakdown;
  /// The peak of a memory, and what it holds then.
  struct PeakMemory {
    Bytes peak, parameters, gradients, optimizer, activations, buffers;
    Bytes states() const { return parameters + gradients + optimizer; }
  };
  struct Memory : PeakMemory {
    Bytes capacity;
    int rank = 0;   ///< rank with the highest peak
    int stage = 0;  ///< pipeline stage of that rank
    // Memory of the device with the allocator's reserve and the buffers of CUDA and NCCL (see `DeviceMemory`).
    Bytes reserved, device, needed, usable;
    int neediest_rank = 0;  ///< rank whose device these describe: the one that needs the largest share of it
  } memory;
  /// Memory of a rank of a pipeline stage at its peak.
  struct StageMemory : PeakMemory {
    int rank = 0;
  };
  struct Stage {
    int layers = 0;  ///< number of layers, including embedding and head
    /// Breakdown of the stage's last rank to finish. The rest of the step is bubble, so that the parts sum to the step.
    Breakdown breakdown;
    StageMemory memory;  ///< memory of the fullest rank
  };
  std::vector<Stage> stages;  ///< pipeline stages; empty if there is one stage
  std::vector<StageMemory> stage_memory() const {
    std::vector<StageMemory> all;
    for (const Stage& stage : stages) all.push_back(stage.memory);
    return all;
  }
  /// Memory of a node's host. Activations lie there between their forward and backward pass.
  struct HostMemory : PeakMemory {
    Bytes capacity;               ///< capacity of the node; 0: not stated
    Bytes input;                  ///< batches on their way to the devices, and the cache
    int node = 0;                 ///< the fullest node
    Bytes weights = {};           ///< weights that pass through the host of rank 0 before the first step
    Bytes weights_capacity = {};  ///< capacity of that node; 0: not stated
    bool offloads() const { return peak > input; }
    bool holds_weights() const { return weights_capacity == Bytes{} || weights <= weights_capacity; }
  } host_memory;  ///< host memory of the fullest node; peak 0: neither offload nor an input pipeline
  struct Drive {
    Bytes capacity, peak;
    int node = 0;
  } drive;  ///< all drives of a node
  /// Consecutive actors (ranks or servers) with equal memory and equal traffic.
  struct ActorUse {
    std::string name;  ///< "rank 0", "ranks 1-7", "server 0"
    int count = 1;
    Bytes memory;          ///< peak of each actor
    Bytes sent, received;  ///< traffic of each actor in a step
    Seconds work;          ///< time of each actor's kernels in a step
  };
  std::vector<ActorUse> actors;  ///< empty: the mechanism's ranks are all alike
  bool fits = true;              ///< the plan fits on GPUs, hosts and drives, and so do further models of a loop
  double risk = 0;               ///< probability that a GPU runs out of memory
  /// Ends of the interval in which `Memory::device` lies with a probability of 80 %; empty: nothing was simulated.
  std::vector<double> memory_interval;
  /// As `fits`, without further models of a loop.
  bool plan_fits() const {
    return fits || (post_training && !post_training->phases_fit() && memory.needed <= memory.usable);
  }
  /// Returns what a node lacks besides the memory of its GPUs: "host memory" or "room on the drives"; "": nothing.
  std::string lack_outside_gpus() const;
  const char* fits_in_words() const;            ///< "yes", "at risk" or "no"
  std::map<std::string, double> critical_path;  ///< seconds by resource
  /// Returns the critical path as (seconds, resource), the largest first; equal ones by name.
  std::vector<std::pair<double, std::string>> shares() const;
  std::string bottleneck;  ///< resource with the largest share
  double bottleneck_share = 0;
  std::map<std::string, double> bytes_by_link_kind;
  std::map<std::string, double> busiest_link;      ///< share of the time in which the busiest link of a kind works
  std::map<std::string, double> bytes_by_content;  ///< bytes of messages by what they carry
  Bytes bytes_sent_per_rank_max, bytes_total;
  std::uint64_t operations = 0, messages = 0;
  std::uint64_t late_by_look_ahead = 0;
  int ranks = 0;
  int idle_devices = 0;  ///< number of devices of the cluster without work
  int simulated_ranks = 0;
  std::string unfolded_reason;  ///< why every rank was simulated; empty: ranks were folded
  std::string shared_draws;  ///< which ranks share drawn slow-downs; empty: each rank has its own, or nothing is drawn
  std::string full_pods;     ///< which pod counts as full, and the error; empty: every pod is simulated as it is
  /// Largest relative error of the step time that `shared_draws` or `full_pods` states; 0: none is stated.
  double estimate_error = 0;
  struct AllReduce {
    std::string algorithm, fidelity;
    bool averages_parameters = false;  ///< false: it sums gradients
    int channels = 1;
    /// A candidate of `algorithm: auto`: one collective of `size` bytes that runs alone.
    struct Candidate {
      std::string algorithm;
      int channels = 1;
      Bytes size;
      Seconds seconds;
    };
    std::vector<Candidate> tuned;  ///< fastest first
  } all_reduce;                    ///< algorithm empty: there is no all-reduce
  struct Compression {
    std::string name;        ///< description; empty: gradients are exchanged uncompressed
    Bytes dense, sent;       ///< a rank's gradients, and what it sends in their place, per step
    Seconds encode, decode;  ///< time of kernels per step, on the rank that the breakdown describes
    double ratio() const { return dense / sent; }
  } compression;
  /// The calls by which the host of a rank starts the work of a step.
  struct HostCalls {
    double all = 0;         ///< number of calls
    double kernels = 0;     ///< number of kernels, which a compiled program or a CUDA graph starts together
    double exchanges = 0;   ///< collectives, and messages to and from other pipeline stages
    double copies = 0;      ///< batches of samples, and copies of offload
    bool compiled = false;  ///< one call starts a program of all kernels and of the exchanges between chips (TPU)
    int rank = 0;
  };
  /// No value: steps differ from each other, or replicas meet in another way than by collectives.
  std::optional<HostCalls> host_calls;
  /// The unequal loads of expert ranks.
  struct ExpertLoad {
    double most = 1,
           least = 1;  ///< rows of the busiest and of the least busy rank, over the mean that the router chose
    /// Time of a rank in all-to-alls of a step beyond that of the rank in its group that waits least.
    Seconds longest_wait, mean_wait;
  };
  std::optional<ExpertLoad> expert_load;  ///< No value: all ranks of the expert axis have equal loads
  FiguresByKey servers, replicas;
  /// Number of pushes to servers, or of delayed gradients, by the number of updates that they missed.
  std::map<std::uint32_t, std::uint64_t> staleness;
  /// Returns `servers`, `replicas` and `staleness`, as the mechanism reports them.
  MechanismFigures of_mechanism() const { return {servers, replicas, staleness}; }
  int steps = 1, warm_steps = 0;  ///< number of simulated steps that are averaged, and of warm-up steps before them
  struct Input {
    double starved_share = 0;                  ///< share of the step that would be saved with all samples on GPUs
    double storage_busy = 0, decode_busy = 0;  ///< share of the time in which the busiest link or decoder works
    Bytes read;                                ///< bytes that a step reads from the storage
    double from_cache = 0;                     ///< share of the samples that hosts have cached
    Bytes host_bytes;                          ///< batches on their way and cache, on the fullest node
    /// Replica r of R reads the samples r, r + R, r + 2R, … of an epoch: the largest and the smallest of these shards.
    double largest_shard = 0, smallest_shard = 0;
    double largest_shards = 0;  ///< number of replicas with a shard of the largest size
  };
  std::optional<Energy> energy;  ///< No value: the power of the GPUs is not stated, or the step is not simulated
  /// Returns the energy of the site for the whole training, including the cost of failures, J; 0: its length is not
  /// given.
  double training_energy() const;
  std::optional<Money> money;                       ///< No value: the scenario has no prices
  std::optional<Input> input;                       ///< No value: the scenario has no input pipeline
  std::optional<PostTrainingResult> post_training;  ///< No value: the scenario has no post-training loop
  std::optional<GenerationResult> generation;       ///< No value: no engines answer prompts without a loop
  std::vector<PostTrainingSplit> splits;  ///< other splits of the nodes; empty: not requested, or nothing is split
  /// Returns the time of the training, including its phases and the cost of failures.
  Seconds whole_time() const {
    Seconds all = failures ? failures->end : training_time;
    if (failures)
      for (const Phase& phase : phases) all += phase.time * phase.times;
    return all;
  }
  /// Returns the time of the step that energy and money are of: the loop's if there is one.
  Seconds whole_step() const { return post_training ? post_training->step_time : step_time; }
  /// Return the samples and the tokens of that step. A loop trains on answers.
  double samples_of_step() const {
    return post_training ? post_training->samples_per_s * post_training->step_time.value
                         : samples_per_s * step_time.value;
  }
  double tokens_of_step() const {
    return post_training ? post_training->tokens_per_s * post_training->step_time.value
                         : tokens_per_s * step_time.value;
  }
  /// Returns the number of devices of the plan, or of the whole loop.
  int gpus() const { return post_training ? post_training->gpus : ranks; }
  /// Returns the number of steps of the whole training that are completed; 0: its length is not given.
  double completed_steps() const { return training_steps > 0 && failures ? failures->steps : training_steps; }
  Seconds wall_s;                      ///< wall-clock time of the simulation; 0: not requested
  std::optional<Capacity> capacity;    ///< No value: not requested
  std::vector<FittingChange> changes;  ///< empty: not requested, or none is known
  std::vector<RefusedWhatIf> refused_what_ifs;
};

/// One operation of the critical path, with names.
struct PathLine {
  Seconds begin, end;
  std::string actor, name, resource;
};

/// The content of `run --json` and `explain --json`.
struct Answer {
  Result result;
  std::vector<WhatIf> what_ifs;
  Sources sources;
  std::optional<std::vector<PathLine>> path;                   ///< only in `explain`
  std::optional<std::vector<FailureWhatIf>> failure_what_ifs;  ///< only in `explain`
};

nlohmann::json to_json(const Result&);
Result result_from_json(const nlohmann::json&);

/// Returns the JSON of an answer. `timing`: includes the wall-clock time, which differs from run to run.
nlohmann::json answer_json(Answer, bool timing);

/// The tables of the answer's fields. They write and read the JSON, explain it to users, and name the columns of a
/// sweep.
const JsonFields<Result>& result_fields();
JsonFields<Result::Drive> drive_fields();
JsonFields<Result::MeasuredValues> measured_fields();
JsonFields<PathLine> path_fields();
JsonFields<DrawnSteps> drawn_steps_fields();
JsonFields<Result::Phase> phase_fields();
JsonFields<Energy> energy_fields();
JsonFields<Ownership> ownership_fields();
JsonFields<RentCost> rent_cost_fields();
JsonFields<Money> money_fields();
JsonFields<Capacity> capacity_fields();
JsonFields<Result::HostCalls> host_call_fields();
JsonFields<Result::ExpertLoad> expert_load_fields();
JsonFields<Result::Input> input_fields();
const JsonFields<Answer>& answer_fields();

}  // namespace trainyard
