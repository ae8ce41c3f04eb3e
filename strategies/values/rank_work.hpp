#pragma once
#include <Eigen/Core>
#include <vector>

#include "sim/units.hpp"
#include "strategies/plan/mesh.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/values/replica.hpp"

namespace trainyard {

/// One rank's part of the loss of a step, from its own samples.
struct StepLoss {
  double loss = 0;
  Seconds time;  ///< simulated time at which it was computed
};

/// The passes of one rank, and its replica of the model.
class RankWork {
 public:
  virtual ~RankWork() = default;

  virtual const Coordinates& coordinates() const = 0;
  virtual Replica& replica() = 0;
  virtual int steps() const = 0;                            ///< number of steps that have begun
  virtual const std::vector<StepLoss>& losses() const = 0;  ///< losses by step, on ranks with the last layer

  /// Executes one of the calls forward to backward_weights.
  virtual void pass(TrainingCall, const CallArguments&) = 0;
  /// Moves the activations of a layer and micro-batch to the host, or back. A small training moves nothing.
  virtual void move_activations(bool /*to_host*/, const CallArguments&) {}
  /// The next forward passes belong to `step`. Unfinished passes are discarded.
  virtual void begin_at(int step) = 0;
  /// Computes all passes of a step at once with the present parameters, and returns the rank's gradients.
  virtual Eigen::VectorXd whole_step(int step) = 0;

  // For a loss that another actor computes between the forward and the backward pass of a micro-batch. A small training
  // computes its loss in the forward pass; its outputs and gradients are empty.
  virtual const Eigen::MatrixXd& output(int micro_batch) = 0;
  /// Gradient of the loss of this rank's samples by `outputs`.
  virtual Eigen::MatrixXd loss_gradient(int micro_batch, const Eigen::MatrixXd& outputs) = 0;
  virtual void give_output_gradient(int micro_batch, const Eigen::MatrixXd& gradient) = 0;
};

}  // namespace trainyard
