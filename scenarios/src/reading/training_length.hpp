#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "models/hardware/storage.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// What a training does besides its steps.
struct TrainingEnds {
  Seconds start;         ///< of framework, container and processes, before anything else
  bool weights = false;  ///< are copied to the GPU of the first rank, and from there to all others
  /// Evaluation: forward passes over so many samples, after every so many steps and at the end.
  double samples = 0, every = 0;                 ///< samples 0: none; every 0: at the end alone
  std::optional<std::int64_t> micro_batch_size;  ///< none: the training's
  std::optional<std::string> precision;          ///< none: the training's
  Place evaluate_place;
  /// A container image, which every node pulls from the registry before its processes start.
  Bytes image;
  std::optional<Storage> registry;
  /// Work of rank 0 alone, after every so many steps and at the end: logs, metrics; and its weights written to a store
  /// (or to drives of the node). At the next step all others wait for it.
  struct Alone {
    Seconds time;
    double every = 0;  ///< 0: at the end alone
    bool writes = false;
    std::optional<Storage> store;  ///< none: the node's drives
    Place place;
  };
  std::optional<Alone> alone;
  bool given() const { return start.value > 0 || weights || samples > 0 || image.value > 0 || alone; }
  double times_alone(double steps) const;  ///< likewise of rank 0's own work
  double evaluations(double steps) const;  ///< in a training of so many steps, the last one among them
};

/// How long a training goes on: `plan.training`. All counts are whole numbers; 0 where nothing is said.
struct TrainingLength {
  double steps = 0;  ///< in all
  double epochs = 0, steps_per_epoch = 0;
  Seconds time;  ///< instead of steps: as many as fit
  TrainingEnds ends;
  bool given() const { return steps > 0 || time.value > 0; }
};

/// Reads `{steps}`, `{tokens}`, `{time}`, `{epochs, samples}` (samples of an epoch) or `{epochs, steps_per_epoch}`. What does not
/// fill its last step takes a whole one: of an epoch where there are epochs. `step_samples` is the global batch,
/// `sample_tokens` 1 where a sample is no text. Beside these `start` (a time), `weights` (true: they are handed out first) and
/// `evaluate: {samples, every: steps, micro_batch_size, precision}`, `image: {size, from: STORAGE, cached}` and `rank_0:
/// {time, every: steps, checkpoint: local | STORAGE}`. Throws UserError with the place.
TrainingLength read_training_length(const Node&, double step_samples, double sample_tokens, const Catalog& = Catalog());

/// Steps of a virtual epoch, of which a pass over the data has `count`: what is saved and judged as often as if it were
/// one. Rounded up, so that no pass has more of them.
double virtual_epoch_steps(const TrainingLength&, double count);

/// "24 epochs × 250 steps", "95,367 steps".
std::string describe(const TrainingLength&);
/// A long time as people say it: "127 s", "3.2 h", "14.1 days", "36.2 years" (of 365.25 days).
std::string long_time(Seconds);

}  // namespace trainyard
