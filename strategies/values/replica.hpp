#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <memory>

namespace trainyard {

/// What one actor of a training holds of the model: parameters, gradients and the optimizer's state. Buckets are the
/// plan's.
class Replica {
 public:
  virtual ~Replica() = default;

  // As in training_calls.hpp; `place` of a bucket counts those of all sets (see UpdatePolicy::gradient_sets).
  virtual void fill_bucket(std::size_t place, Eigen::VectorXd& buffer) = 0;
  virtual void keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) = 0;
  virtual void update(std::size_t set = 0) = 0;
  virtual void fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const = 0;
  virtual void take_parameters(std::size_t bucket, const Eigen::VectorXd&) = 0;

  // For mechanisms whose calls mean something else, of ranks that hold all.
  virtual std::size_t buckets() const = 0;
  virtual Eigen::VectorXd parameters_of(std::size_t bucket) const = 0;
  virtual Eigen::VectorXd gradients(std::size_t bucket) const = 0;
  virtual void set_gradients(std::size_t bucket, const Eigen::VectorXd&) = 0;
  virtual void clear_gradients(std::size_t bucket) = 0;
  /// All parameters, layer by layer.
  virtual Eigen::VectorXd all_parameters() const = 0;
  virtual void set_all_parameters(const Eigen::VectorXd&) = 0;
  /// The optimizer, whatever gradients are there.
  virtual void apply_gradients(std::size_t set = 0) = 0;
  /// So that nobody may use parameters that it was not given.
  virtual void forget_parameters() = 0;
  virtual int updates() const = 0;
  virtual std::unique_ptr<Replica> copy() const = 0;
};

}  // namespace trainyard
