#pragma once
#include <map>

#include "strategies/central_plan.hpp"
#include "strategies/numeric_training.hpp"

namespace trainyard {

/// Carries out on real arrays what the programs of a center and its replicas say: parameters that the center gave out,
/// outputs and gradients that came to it.
class CentralNumerics {
 public:
  CentralNumerics(const NumericTask&, const CentralPlan&);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);
  /// What an actor holds; of replicas, what they were given last.
  const Mlp& held_by(Actor actor) const { return holders_.at(actor).mlp; }
  int updates() const { return updates_; }  ///< of the center

 private:
  struct Holder {
    Mlp mlp;
    std::vector<Eigen::MatrixXd> activations;  // [0] the input, [l + 1] the output of layer l
    Eigen::MatrixXd gradient;                  // by the output of the layer below
    std::vector<Eigen::VectorXd> gradients;    // by layer
  };
  const NumericTask& task_;
  const CentralPlan& plan_;
  std::map<Actor, Holder> holders_;
  Values* values_ = nullptr;
  int updates_ = 0;

  std::pair<Eigen::Index, Eigen::Index> samples(Actor, int micro_batch) const;
  void forward(Actor, int layer, int micro_batch);
  void backward(Actor, int layer, int micro_batch);
  void fill_output(Actor);
  void loss(Actor, int micro_batch);
  void fill_bucket(Actor, std::uint16_t bucket);
  void update(Actor);
  /// Every part of a bucket: its values in the buffer, and in the vectors by layer.
  template <class Do>
  void with_parts(Actor, std::uint16_t bucket, std::uint16_t buffer, Do);
};

}  // namespace trainyard
