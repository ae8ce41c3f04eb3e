#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/rank_parameters.hpp"
#include "strategies/values/rank_work.hpp"

namespace trainyard {

namespace numeric {

/// The position of a stage's layer in the pipeline.
struct LayerPosition {
  int virtual_stage = 0;
  bool begins_chunk = false, ends_chunk = false;
};

/// The values of one rank: its shards of the parameters, and the passes under way through its layers. Loss and
/// gradients are means over all tokens of a step's global batch. In steps in which replicas do not sum their gradients,
/// they are means over the rank's own part of it.
class RankValues : public RankWork {
 public:
  /// All arguments must outlive it. `positions`: by layer, for the layers of the rank's stage.
  RankValues(const TrainingTask&, const TrainingPlan&, const std::vector<LayerPosition>& positions, int rank, Values&);
  RankValues(const RankValues&) = delete;
  RankValues& operator=(const RankValues&) = delete;

  const Coordinates& coordinates() const override { return coordinates_; }
  Replica& replica() override { return parameters_; }
  int steps() const override { return steps_; }
  const std::vector<StepLoss>& losses() const override { return losses_; }

  void pass(TrainingCall, const CallArguments&) override;
  void move_activations(bool to_host, const CallArguments&) override;
  void begin_at(int step) override;
  Eigen::VectorXd whole_step(int step) override;

  const Matrix& output(int micro_batch) override { return pass_of(last(), micro_batch).graph["output"]; }
  Matrix loss_gradient(int micro_batch, const Matrix& outputs) override;
  void give_output_gradient(int micro_batch, const Matrix& gradient) override {
    pass_of(last(), micro_batch).graph.give("output.d", gradient);
  }

 private:
  struct Pass {
    Graph graph;
    int step = 0;
    Batch batch;
    std::optional<Matrix> input, out_gradient;
    bool forward_done = false, input_done = false;
  };
  using Key = std::pair<int, int>;  // layer, micro-batch
  const TrainingTask task_;         ///< its micro-batches are the rank's parts if stages have widths of their own
  const TrainingPlan& plan_;
  const std::vector<LayerPosition>& positions_;
  Values& values_;
  int rank_;
  Coordinates coordinates_;
  RankPlace place_;
  RankParameters parameters_;
  std::map<Key, Pass> passes_;
  std::map<Key, Pass> on_host_;                   // passes whose activations are on the host
  std::map<Key, int> next_step_;                  // step of the next forward pass
  std::map<Key, Matrix> inputs_, out_gradients_;  // passed between layers of a model chunk
  int steps_ = 0;
  std::vector<StepLoss> losses_;

  int last() const { return static_cast<int>(positions_.size()) - 1; }
  const Layer& layer(int number) const { return plan_.network->layers[number]; }
  const LayerPosition& position(int number) const { return positions_[number]; }
  Pass& pass_of(int number, int micro_batch) { return passes_.at({number, micro_batch}); }
  std::string location(int number, int micro_batch) const;
  Pass& open_pass(TrainingCall, int number, int micro_batch);
  Batch batch_of(int step, int micro_batch) const;
  RankLayer rank_layer(int number) const;
  void define(int number, int micro_batch, Pass&);
  Matrix take_input(int number, int micro_batch, bool back);
  Eigen::VectorXd& message(int virtual_stage, int micro_batch, bool back);
  void make_room();
  Matrix received(int virtual_stage, int micro_batch, bool back, Index rows);
  void send(int virtual_stage, int micro_batch, bool back, const Matrix&);
  void exchange(Pass&, const Exchange&, int buffer);
  void end_forward(int number, int micro_batch);
  void end_input_gradient(int number, int micro_batch);
  void end_weight_gradients(int number, int micro_batch);
};

}  // namespace numeric
}  // namespace trainyard
