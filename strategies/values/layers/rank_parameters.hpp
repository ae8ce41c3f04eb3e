#pragma once
#include <map>
#include <utility>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/place.hpp"

namespace trainyard::numeric {

/// Parameters, gradients and optimizer state of one rank, and what goes between them and the buffers of the schedule.
/// Where ranks share things out (ZeRO), a rank's own block of each bucket is what it answers for; all else is NaN
/// wherever the strategy says that it is not there.
class RankParameters {
 public:
  RankParameters(const RankPlace&, const TrainingPlan&, int rank, int stage);

  LayerShard& layer(int number) { return layers_.at(number).shard; }
  const LayerShard& layer(int number) const { return layers_.at(number).shard; }
  bool has(int number) const { return layers_.count(number) > 0; }
  /// Numbers of the rank's layers.
  std::vector<int> numbers() const;
  /// Where the head finds a weight that it shares with the embedding of the same rank; null: nowhere.
  const LayerShard* tied_weight() const;

  /// Gradients of the layer are those of one more micro-batch.
  void accumulated(int number) { ++layers_.at(number).micro_batches; }

  // As in training_calls.hpp. Throw InternalError for gradients of no or too few micro-batches.
  void fill_bucket(int bucket, Eigen::VectorXd& buffer);
  void keep_gradients(int bucket, const Eigen::VectorXd& buffer);
  void update();
  void fill_parameters(int bucket, Eigen::VectorXd& buffer) const;
  void take_parameters(int bucket, const Eigen::VectorXd& buffer);
  void drop_parameters(int bucket);
  void fill_tied(Eigen::VectorXd& buffer) const;
  void take_tied(const Eigen::VectorXd& buffer);
  void fill_partial(Eigen::VectorXd& buffer) const;
  void take_partial(const Eigen::VectorXd& buffer);
  // Offload (rank_offload.cpp).
  void fill_share(int bucket, Eigen::VectorXd& buffer);
  void keep_on_host(int bucket, Eigen::VectorXd& buffer);
  void read_states(int bucket);
  void update_on_host(int bucket, Eigen::VectorXd& buffer);
  void write_states(int bucket, Eigen::VectorXd& buffer);
  void fill_host_parameters(int bucket, Eigen::VectorXd& buffer);
  void take_own(int bucket, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host);

  int updates() const { return updates_; }
  /// With which the last update was made.
  const Eigen::VectorXd& last_gradient(int number) const { return layers_.at(number).last_gradient; }
  /// Where it lies between steps: on the GPU, or with the host.
  double parameter(int number, Index element) const {
    const Held& held = layers_.at(number);
    return plan_.offload.parameters == OffloadDevice::none ? held.shard.parameters[element]
                                                           : held.host_parameters[element];
  }
  /// Does the rank answer for this element of the layer's vector?
  bool own(int number, Index element) const { return layers_.at(number).own[static_cast<std::size_t>(element)]; }

 private:
  struct Held {
    LayerShard shard;
    Eigen::VectorXd kept;             ///< sums of the own blocks, where gradients are shared out
    Eigen::VectorXd host_parameters;  ///< offload: what the host updates
    Eigen::VectorXd first_moment, second_moment, last_gradient;
    std::vector<char> own;
    std::vector<int> bucket;  ///< of each element, −1: none
    int micro_batches = 0;
  };
  struct Bucket {
    struct Piece {
      int layer;
      Index first, count;
    };
    std::vector<Piece> pieces;
    Index elements = 0, own_begin = 0, own_end = 0;
    bool exchanged = false;     ///< more than one rank has it
    bool state_shared = false;  ///< a rank updates its own block alone
    bool gradients_shared = false;
    int filled = 0, taken = 0;  ///< micro-batches in what was filled in, and kept
    // Offload:
    Eigen::VectorXd on_host;         ///< gradients of the share
    int left = 0, kept_on_host = 0;  ///< micro-batches in what has left the GPU, and in these
    bool states_read = false, updated_on_host = false, unwritten = false;
  };
  const NumericStepTask& task_;
  const TrainingPlan& plan_;
  std::map<int, Held> layers_;
  std::vector<Bucket> buckets_;
  std::vector<Bucket::Piece> tied_, partial_;
  int updates_ = 0;

  void add_layer(const RankPlace&, int number, int stage);
  void add_bucket(const GradientBucket&, int rank);
  int micro_batches_in(const Bucket&) const;
  bool in_blocks(const Held&, Index element) const;
  double gradient(const Held&, Index element) const;
  void set_gradient(Held&, Index element, double value);
  void step(Held&, Index element, double& parameter) const;
  template <class Visit>
  void of_share(const Bucket&, Visit);
  void finish_on_host();
};

}  // namespace trainyard::numeric
