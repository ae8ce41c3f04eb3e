#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <memory>
#include <vector>

#include "sim/units.hpp"
#include "strategies/plan/mesh.hpp"
#include "strategies/plan/training_calls.hpp"

namespace trainyard {

/// Parameters, gradients and optimizer state of one actor, in the buckets of the plan.
class Replica {
 public:
  virtual ~Replica() = default;

  // The calls of training_calls.hpp. `place`: number of the bucket among the buckets of all gradient sets (see
  // UpdatePolicy::gradient_sets).
  virtual void fill_bucket(std::size_t place, Eigen::VectorXd& buffer) = 0;
  virtual void keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) = 0;
  virtual void update(std::size_t set = 0) = 0;
  virtual void fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const = 0;
  virtual void take_parameters(std::size_t bucket, const Eigen::VectorXd&) = 0;

  // For mechanisms that define calls of their own, on ranks that hold the whole model.
  virtual std::size_t buckets() const = 0;
  Eigen::VectorXd parameters_of(std::size_t bucket) const {
    Eigen::VectorXd parameters;
    fill_parameters(bucket, parameters);
    return parameters;
  }
  virtual Eigen::VectorXd gradients(std::size_t bucket) const = 0;
  virtual void set_gradients(std::size_t bucket, const Eigen::VectorXd&) = 0;
  virtual void clear_gradients(std::size_t bucket) = 0;
  /// All parameters, layer by layer.
  virtual Eigen::VectorXd all_parameters() const = 0;
  virtual void set_all_parameters(const Eigen::VectorXd&) = 0;
  virtual Eigen::VectorXd all_gradients() const = 0;
  virtual void set_all_gradients(const Eigen::VectorXd&) = 0;
  /// The state that a checkpoint stores: parameters, the optimizer's moments and the number of updates.
  virtual Eigen::VectorXd state() const = 0;
  virtual void set_state(const Eigen::VectorXd&) = 0;
  /// Runs the optimizer with the present gradients, without checks.
  virtual void apply_gradients(std::size_t set = 0) = 0;
  /// Sets all parameters to NaN, which reveals any use of parameters that were not received.
  virtual void forget_parameters() = 0;
  virtual int updates() const = 0;
  virtual std::unique_ptr<Replica> copy() const = 0;
};

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
  /// Makes the next forward passes belong to `step`. Discards unfinished passes.
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
