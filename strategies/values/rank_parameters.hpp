#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/place.hpp"
#include "strategies/values/replica.hpp"

namespace trainyard::numeric {

/// Parameters, gradients and optimizer state of one rank, and what goes between them and the buffers of the schedule.
/// Where ranks share things out (ZeRO), a rank's own block of each bucket is what it answers for; all else is NaN
/// wherever the strategy says that it is not there.
class RankParameters : public Replica {
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
  void accumulated(int number);

  // As in training_calls.hpp; `place` of a bucket counts those of all sets (see UpdatePolicy::gradient_sets). Throw
  // InternalError for gradients of no or too few micro-batches.
  void fill_bucket(std::size_t place, Eigen::VectorXd& buffer) override;
  void keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) override;
  void update(std::size_t set = 0) override;
  void fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const override;
  void take_parameters(std::size_t bucket, const Eigen::VectorXd& buffer) override;
  void drop_parameters(std::size_t bucket);
  void fill_tied(Eigen::VectorXd& buffer) const;
  void take_tied(const Eigen::VectorXd& buffer);
  void fill_partial(Eigen::VectorXd& buffer) const;
  void take_partial(const Eigen::VectorXd& buffer);
  // Offload (rank_offload.cpp).
  void fill_share(std::size_t bucket, Eigen::VectorXd& buffer);
  void keep_on_host(std::size_t bucket, Eigen::VectorXd& buffer);
  void read_states(std::size_t bucket);
  void update_on_host(std::size_t bucket, Eigen::VectorXd& buffer);
  void write_states(std::size_t bucket, Eigen::VectorXd& buffer);
  void fill_host_parameters(std::size_t bucket, Eigen::VectorXd& buffer);
  void take_own(std::size_t bucket, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host);

  // For mechanisms whose calls mean something else, of ranks that hold all.
  std::size_t buckets() const override { return buckets_.size(); }
  Eigen::VectorXd parameters_of(std::size_t bucket) const override {
    Eigen::VectorXd all;
    fill_parameters(bucket, all);
    return all;
  }
  Eigen::VectorXd gradients(std::size_t bucket) const override;
  void set_gradients(std::size_t bucket, const Eigen::VectorXd&) override;
  void clear_gradients(std::size_t bucket) override;
  Eigen::VectorXd all_parameters() const override;
  void set_all_parameters(const Eigen::VectorXd&) override;
  Eigen::VectorXd all_gradients() const override;
  void set_all_gradients(const Eigen::VectorXd&) override;
  Eigen::VectorXd state() const override;
  void set_state(const Eigen::VectorXd&) override;
  void apply_gradients(std::size_t set = 0) override;
  void forget_parameters() override;

  int updates() const override { return updates_; }
  std::unique_ptr<Replica> copy() const override { return std::make_unique<RankParameters>(*this); }
  /// With which the last update was made.
  const Eigen::VectorXd& last_gradient(int number) const { return layers_.at(number).last_gradient; }
  /// Where it lies between steps: on the GPU, or with the host.
  double parameter(int number, Index element) const {
    const Held& held = layers_.at(number);
    return plan_.offload.parameters == OffloadDevice::none ? held.shard.parameters[element]
                                                           : held.host_parameters[element];
  }
  /// Does the rank answer for this element of the layer's vector?
  bool own(int number, Index element) const { return layers_.at(number).own[element]; }

 private:
  struct Held {
    LayerShard shard;
    std::vector<Eigen::VectorXd> kept;  ///< by set: sums of the own blocks, apart from those of later micro-batches
    Eigen::VectorXd host_parameters;    ///< offload: what the host updates
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
    std::vector<int> filled, taken;  ///< by set: micro-batches in what was filled in, and kept
    // Offload:
    Eigen::VectorXd on_host;         ///< gradients of the share
    int left = 0, kept_on_host = 0;  ///< micro-batches in what has left the GPU, and in these
    bool states_read = false, updated_on_host = false, unwritten = false;
  };
  const TrainingTask& task_;
  const TrainingPlan& plan_;
  std::size_t sets_;
  std::map<int, Held> layers_;
  std::vector<Bucket> buckets_;
  std::vector<Bucket::Piece> tied_, partial_;
  int updates_ = 0;

  void add_layer(const RankPlace&, int number);
  void add_bucket(const GradientBucket&, int rank);
  bool late() const { return sets_ > 1; }  ///< gradients wait while those of the next step are made
  int micro_batches_in(const Bucket&) const;
  bool in_blocks(const Held&, Index element) const;
  double gradient(const Held&, Index element) const;
  void set_gradient(Held&, Index element, double value);
  Index by_rows(Index element, Index count) const;
  void step(Held&, Index element, double& parameter) const;
  template <class Part>
  Eigen::VectorXd all(Part) const;
  template <class Part>
  void set_all(const Eigen::VectorXd&, Part);
  /// visit(held, element of the layer, element of the bucket) for all of a bucket.
  template <class Self, class Visit>
  static void of_bucket(Self& self, const Bucket& b, Visit visit) {
    Index at = 0;
    for (const Bucket::Piece& piece : b.pieces) {
      auto& held = self.layers_.at(piece.layer);
      for (Index i = piece.first; i < piece.first + piece.count; ++i, ++at) visit(held, i, at);
    }
  }
  /// The same, element of the share, for what the rank answers for.
  template <class Visit>
  void of_share(const Bucket& b, Visit visit) {
    of_bucket(*this, b, [&](Held& held, Index i, Index at) {
      if (at >= b.own_begin && at < b.own_end) visit(held, i, at - b.own_begin);
    });
  }
  void finish_on_host();
};

}  // namespace trainyard::numeric
