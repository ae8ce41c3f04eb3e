#pragma once
#include <map>
#include <memory>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/place.hpp"
#include "strategies/values/rank_work.hpp"

namespace trainyard::numeric {

/// Parameters, gradients and optimizer state of one rank, and the copies between them and the buffers of the schedule.
/// If ranks shard states (ZeRO), a rank owns one block of each bucket. Elements that a rank does not have under the
/// strategy are NaN.
class RankParameters : public Replica {
 public:
  RankParameters(const RankPlace&, const TrainingPlan&, int rank, int stage);

  LayerShard& layer(int number) { return layers_.at(number).shard; }
  const LayerShard& layer(int number) const { return layers_.at(number).shard; }
  bool has(int number) const { return layers_.contains(number); }
  /// Returns the numbers of the rank's layers, in ascending order.
  std::vector<int> numbers() const;
  /// The shard with the weight that the head shares with the embedding of the same rank; null if there is none.
  const LayerShard* tied_weight() const;

  /// Counts one more micro-batch in the layer's gradients.
  void count_micro_batch(int number);

  // The calls of training_calls.hpp. `place`: number of the bucket among the buckets of all gradient sets (see
  // UpdatePolicy::gradient_sets). They throw InternalError for gradients of no or too few micro-batches.
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
  // Calls of offload.
  void fill_share(std::size_t bucket, Eigen::VectorXd& buffer);
  void keep_on_host(std::size_t bucket, Eigen::VectorXd& buffer);
  void read_states(std::size_t bucket);
  void update_on_host(std::size_t bucket, Eigen::VectorXd& buffer);
  void write_states(std::size_t bucket, Eigen::VectorXd& buffer);
  void fill_host_parameters(std::size_t bucket, Eigen::VectorXd& buffer);
  void take_own(std::size_t bucket, Eigen::VectorXd& buffer, Eigen::VectorXd& on_host);

  // For mechanisms that define calls of their own, on ranks that hold the whole model.
  std::size_t buckets() const override { return buckets_.size(); }
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
  /// Returns the gradient of the last update.
  const Eigen::VectorXd& last_gradient(int number) const { return layers_.at(number).last_gradient; }
  /// Returns a parameter as it is between steps: from the GPU, or from the host if parameters are offloaded.
  double parameter(int number, Index element) const {
    const LayerState& state = layers_.at(number);
    return plan_.offload.parameters == OffloadDevice::none ? state.shard.parameters[element]
                                                           : state.host_parameters[element];
  }
  /// True if the rank owns this element of the layer's vector.
  bool owns(int number, Index element) const { return layers_.at(number).own[element]; }

 private:
  struct LayerState {
    LayerShard shard;
    std::vector<Eigen::VectorXd> kept;  ///< own sums for each gradient set, without later micro-batches
    Eigen::VectorXd host_parameters;    ///< offload: the parameters that the host updates
    Eigen::VectorXd first_moment, second_moment, last_gradient;
    std::vector<char> own;
    std::vector<int> bucket;  ///< bucket by element; −1: none
    int micro_batches = 0;
  };
  struct Bucket {
    struct Piece {
      int layer;
      Index first, count;
    };
    std::vector<Piece> pieces;
    Index elements = 0, own_begin = 0, own_end = 0;
    Index own_size() const { return own_end - own_begin; }
    bool exchanged = false;          ///< more than one rank has the bucket
    bool state_shared = false;       ///< optimizer states are sharded: a rank only updates its own block
    bool gradients_shared = false;   ///< gradients are sharded
    std::vector<int> filled, taken;  ///< micro-batches in the filled and kept gradients of each set
    // Offload:
    Eigen::VectorXd on_host;         ///< gradients of the own block
    int left = 0, kept_on_host = 0;  ///< micro-batches in the gradients that have left the GPU, and in `on_host`
    bool states_read = false, updated_on_host = false, unwritten = false;
  };
  const TrainingTask& task_;
  const TrainingPlan& plan_;
  std::size_t sets_;
  std::map<int, LayerState> layers_;
  std::vector<Bucket> buckets_;
  std::vector<Bucket::Piece> tied_, partial_;
  int updates_ = 0;

  void add_layer(const RankPlace&, int number);
  void add_bucket(const GradientBucket&, int rank);
  bool is_delayed() const { return sets_ > 1; }  ///< gradients are applied after later ones are computed
  int micro_batches_in(const Bucket&) const;
  bool has_block_sum(const LayerState&, Index element) const;
  double gradient(const LayerState&, Index element) const;
  void set_gradient(LayerState&, Index element, double value);
  Index by_rows(Index element, Index count) const;
  Index partial_elements() const;
  void step(LayerState&, Index element, double& parameter) const;
  template <class Part>
  Eigen::VectorXd gather(Part) const;
  template <class Part>
  void scatter(const Eigen::VectorXd&, Part);
  /// Calls visit(state, element of the layer, element of the bucket) for all elements of a bucket.
  template <class Self, class Visit>
  static void visit_bucket(Self& self, const Bucket& b, Visit visit) {
    Index position = 0;
    for (const Bucket::Piece& piece : b.pieces) {
      auto& state = self.layers_.at(piece.layer);
      for (Index i = piece.first; i < piece.first + piece.count; ++i, ++position) visit(state, i, position);
    }
  }
  /// Calls visit(state, element of the layer, element of the own block) for the rank's own block of a bucket.
  template <class Visit>
  void visit_own_block(const Bucket& b, Visit visit) {
    visit_bucket(*this, b, [&](LayerState& state, Index i, Index position) {
      if (position >= b.own_begin && position < b.own_end) visit(state, i, position - b.own_begin);
    });
  }
  void finish_on_host();
};

}  // namespace trainyard::numeric
