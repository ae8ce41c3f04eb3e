#pragma once
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "strategies/values/layers/numeric_step.hpp"

namespace trainyard {

/// How a small network is split, for `Lockstep`.
struct Split {
  Mesh mesh;
  Sharding sharding;  ///< tensor, context and expert as in the mesh
  int micro_batches = 1;
  int chunks = 1;  ///< of each pipeline stage
  int steps = 1;
  ZeroStage zero = ZeroStage::none;
  int zero_group = 0;
  bool copy_listed = true;      ///< the head's copy of a tied weight is a parameter of its layer
  bool split_backward = false;  ///< gradients by weights after all those by inputs
  /// Exchanges of this name are left out; "": none. What the others then have is what they had.
  std::string without = {};
};

/// Runs the calls of a training step without any program or clock: all ranks go through the passes together, and
/// exchanges happen as late as their `needed_by` allows.
class Lockstep {
 public:
  Lockstep(const NumericStepTask&, const Split&);
  NumericStep& run();  ///< all steps
  NumericStep& numbers() { return *numbers_; }

 private:
  using Buffers = std::vector<Eigen::VectorXd*>;  // of the members of a group
  NumericStepTask task_;
  Split split_;
  Network network_;
  PipelineSchedule schedule_;
  TrainingPlan plan_;
  Values values_;
  std::unique_ptr<NumericStep> numbers_;

  void lay_out_stages();
  std::vector<int> ranks_of(int stage) const;
  Eigen::VectorXd& buffer(int rank, TrainingBuffer b) { return values_.buffer(rank, number_of(b)); }
  void call(int rank, TrainingCall, int index, int micro_batch = 0, int exchange = 0);
  void exchange(const Exchange&, int stage, int number);
  void pass(TrainingCall, int layer, int micro_batch, int stage);
  void messages(int virtual_stage, int micro_batch, bool back);
  void forward(int micro_batch);
  void backward(int micro_batch, TrainingCall);
  void gather_parameters();
  void drop_parameters();
  void sum_partial_and_tied();
  void reduce_gradients();
};

}  // namespace trainyard
