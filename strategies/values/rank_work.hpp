#pragma once
#include <Eigen/Core>
#include <vector>

#include "sim/units.hpp"
#include "strategies/plan/mesh.hpp"
#include "strategies/plan/training_calls.hpp"
#include "strategies/values/replica.hpp"

namespace trainyard {

/// What one rank had of the loss of a step: the part of its own samples, as soon as it was there.
struct StepLoss {
  double loss = 0;
  Seconds at;
};

/// The passes of one rank, and what it holds.
class RankWork {
 public:
  virtual ~RankWork() = default;

  virtual const Coordinates& at() const = 0;
  virtual Replica& replica() = 0;
  virtual int steps() const = 0;                            ///< begun
  virtual const std::vector<StepLoss>& losses() const = 0;  ///< by step, of ranks that have the last layer

  /// One of the calls forward to backward_weights.
  virtual void pass(TrainingCall, const CallArguments&) = 0;
  /// What a layer keeps of a micro-batch lies on the host, or comes back. Of numbers that go with their own network
  /// nothing moves.
  virtual void move_activations(bool /*to_host*/, const CallArguments&) {}
  // A loss that another actor computes, between the forward and the backward pass of a micro-batch. Of numbers that go
  // with their own network all is done with the forward pass, and these are empty.
  virtual const Eigen::MatrixXd& output(int micro_batch) = 0;
  /// Of the loss of this rank's samples, by such outputs.
  virtual Eigen::MatrixXd loss_gradient(int micro_batch, const Eigen::MatrixXd& outputs) = 0;
  virtual void give_output_gradient(int micro_batch, const Eigen::MatrixXd& gradient) = 0;
};

}  // namespace trainyard
