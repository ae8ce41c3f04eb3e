#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/plan/training_plan.hpp"
#include "strategies/values/layers/place.hpp"
#include "strategies/values/layers/rank_parameters.hpp"

namespace trainyard {

/// How far a split training is from one device's: differences over the largest number of the layer that they are in
/// (loss: of itself). Infinite where a number is missing.
struct NumericDifference {
  double loss = 0, gradients = 0, parameters = 0;
  std::string worst;  ///< in words
  double largest() const;
};

/// Carries out on real arrays, in double, what a training program says (see training_calls.hpp): every rank has its
/// shards of the parameters, the activations it keeps, its gradients and its optimizer's state, and knows of the others
/// what the program's messages bring. Sample i of the training is the same whoever has it: data rank d takes in
/// micro-batch m those from (d · micro_batches + m) · micro_batch_size on, of the step's global batch. The loss is the
/// mean over all tokens of the global batch.
///
/// What the program asks for too early, twice or without its input is an InternalError; where it can only be wrong
/// numbers, or NaN for what a rank does not have, it is these.
class NumericStep {
 public:
  /// Task and plan must live as long. Throws InternalError where layers of the plan's network are not those that values
  /// know for the plan's sharding.
  NumericStep(const NumericStepTask&, const TrainingPlan&);

  /// Registers all TrainingCalls, and makes room for the messages of the pipeline. Both must live until the run has
  /// ended.
  void attach(Values&);
  /// One call, as an operation says it.
  void call(TrainingCall, Actor rank, const CallArguments&);

  /// Of the global batch of one step, as the ranks of tensor coordinate `tensor` have it.
  double loss(int step = 0, int tensor = 0) const;
  /// After the same steps. `one_device`: has all parameters whole.
  NumericDifference difference(const NumericStep& one_device) const;
  numeric::RankParameters& parameters(int rank) { return *ranks_.at(static_cast<std::size_t>(rank))->parameters; }

 private:
  struct Pass {
    numeric::Graph graph;
    std::optional<numeric::Matrix> input, out_gradient;
    bool forward_done = false, input_done = false;
  };
  using Key = std::pair<int, int>;  // layer, micro-batch
  struct Rank {
    numeric::RankPlace place;
    Coordinates at;
    std::unique_ptr<numeric::RankParameters> parameters;
    std::map<Key, Pass> passes;
    std::map<Key, numeric::Matrix> inputs, out_gradients;  // handed on within a model chunk
    std::set<Key> weights_done;                            // with the gradients by inputs already
    std::vector<double> losses;                            // by step
  };
  /// Where a layer stands in the pipeline.
  struct Stand {
    int virtual_stage = 0;
    bool begins_chunk = false, ends_chunk = false;
  };
  const NumericStepTask& task_;
  const TrainingPlan& plan_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Stand> stands_;  // by layer
  Values* values_ = nullptr;

  bool is_last(int layer) const { return layer + 1 == static_cast<int>(stands_.size()); }
  Eigen::VectorXd& message(Actor, int virtual_stage, int micro_batch, bool back);
  void stand_layers();
  void make_room(Actor);
  void pass(TrainingCall, Actor, const CallArguments&);
  void define(Actor, int layer, int micro_batch, Pass&);
  numeric::Matrix received(Actor, int virtual_stage, int micro_batch, bool back, numeric::Index rows);
  void send(Actor, int virtual_stage, int micro_batch, bool back, const numeric::Matrix&);
  void exchange(Actor, Pass&, const Exchange&, int buffer);
  void end_forward(Actor, int layer, int micro_batch);
  void end_input_gradient(Actor, int layer, int micro_batch);
  void end_weight_gradients(Actor, int layer, int micro_batch);
};

/// The same training on one device, without any schedule: what every strategy must reproduce.
class ReferenceStep {
 public:
  /// `global_batch` samples in one micro-batch.
  ReferenceStep(const NumericStepTask&, int global_batch, int steps = 1);
  ReferenceStep(const ReferenceStep&) = delete;
  ReferenceStep& operator=(const ReferenceStep&) = delete;

  void forward();   ///< of the next step
  void backward();  ///< gradients
  void update();
  void run();  ///< all steps
  NumericStep& numbers() { return *numbers_; }
  const Network& network() const { return network_; }

 private:
  NumericStepTask task_;
  Network network_;
  TrainingPlan plan_;
  Values values_;
  std::unique_ptr<NumericStep> numbers_;

  void all_layers(TrainingCall, bool reversed);
};

}  // namespace trainyard
