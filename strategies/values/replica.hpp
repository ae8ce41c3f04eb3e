#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <memory>

namespace trainyard {

/// One actor's parameters, gradients and optimizer state. Buckets are those of the plan.
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
  virtual Eigen::VectorXd parameters_of(std::size_t bucket) const = 0;
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

}  // namespace trainyard
