#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "models/hardware/node_parts.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Work of a training besides its steps.
struct TrainingEnds {
  Seconds start;         ///< start of containers, processes and framework
  bool weights = false;  ///< whether weights are copied to the GPU of the first rank, and from there to all others
  /// Evaluation: forward passes over `samples` samples, after every `interval_steps` steps and at the end.
  double samples = 0, interval_steps = 0;        ///< samples 0: no evaluation; interval_steps 0: only at the end
  std::optional<std::int64_t> micro_batch_size;  ///< micro-batch size of the evaluation. No value: the training's
  std::optional<std::string> precision;          ///< precision of the evaluation. No value: the training's
  Place evaluate_place;
  /// The part of a container image that every node pulls from the registry before its processes start. 0: none.
  Bytes image;
  std::optional<Storage> registry;
  /// Work that only rank 0 does. The other ranks wait for it at the next step.
  struct RankZeroWork {
    // After every `interval_steps` steps and at the end: a given time, and a checkpoint on a store or on drives of the
    // node.
    Seconds time;
    double interval_steps = 0;     ///< steps. 0: only at the end
    bool writes = false;           ///< whether it writes a checkpoint
    bool states = false;           ///< whether the checkpoint has the states of the optimizer beside the weights
    std::optional<Storage> store;  ///< No value: the node's drives
    /// Lines of a log, one after each `line_every` steps, each written to `log` before the next step.
    std::optional<Storage> log;
    Bytes line;
    double line_every = 1;
    /// Samples of an evaluation at the end, on the device of rank 0 alone. 0: none.
    double samples = 0;
    std::int64_t micro_batch_size = 1;
    Place place;
  };
  std::optional<RankZeroWork> rank_zero_work;
  bool is_given() const { return start.value > 0 || weights || samples > 0 || image.value > 0 || rank_zero_work; }
  /// Returns how often rank 0 works alone in a training of `steps` steps.
  double times_alone(double steps) const;
  /// Returns the number of evaluations in a training of `steps` steps, including the last one.
  double evaluations(double steps) const;
};

/// The length of a training: `plan.training`. All counts are whole numbers; 0: not given.
struct TrainingLength {
  double steps = 0;  ///< all steps of the training
  double epochs = 0, steps_per_epoch = 0;
  Seconds time;  ///< instead of `steps`: as many steps as fit
  TrainingEnds ends;
  bool is_given() const { return steps > 0 || time.value > 0; }
};

/// Reads `{steps}`, `{tokens}`, `{time}`, `{epochs, samples}` (samples of an epoch) or `{epochs, steps_per_epoch}`. The
/// last step (of each epoch, if there are epochs) is a whole one, even if samples or tokens do not fill it.
/// `step_samples` is the global batch; `sample_tokens` is 1 if a sample is no text. Also reads the keys of
/// TrainingEnds. Throws UserError with the place.
TrainingLength read_training_length(const Node&, double step_samples, double sample_tokens, const Catalog& = Catalog());

/// Returns the number of steps of a virtual epoch. A pass over the data has `count` virtual epochs, and a checkpoint is
/// saved after each. Rounded up, so that no pass has more of them.
double virtual_epoch_steps(const TrainingLength&, double count);

/// Describes the length: "24 epochs × 250 steps", "95,367 steps".
std::string describe(const TrainingLength&);
/// Formats a long time in a readable unit: "127 s", "3.2 h", "14.1 days", "36.2 years" (of 365.25 days).
std::string long_time(Seconds);

}  // namespace trainyard
