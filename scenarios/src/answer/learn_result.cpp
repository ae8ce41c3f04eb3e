#include "scenarios/src/answer/learn_result.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/json_text.hpp"

namespace trainyard {
namespace {

JsonFields<LearnPoint> learn_point_fields() {
  using P = LearnPoint;
  return JsonFields<P>()
      .value("time_s", "s", &P::time, "time on the simulated clock")
      .value("steps", "", &P::steps, "number of global batches whose gradients are in the weights")
      .value("samples", "", &P::samples, "number of samples whose gradients were computed")
      .value("bytes", "bytes", &P::bytes, "size of all messages")
      .value("training_loss", "", &P::training_loss, "mean loss over the samples since the previous evaluation")
      .value("loss", "", &P::loss, "loss on the validation samples")
      .value("accuracy", "share", &P::accuracy, "accuracy on the validation samples")
      .value("noise_scale_samples", "", &P::noise_scale, "noise scale of the gradient")
      .value("replicas_apart", "", &P::replica_distance, "root mean square distance of replicas from their mean")
      .value("replicas_loss", "", &P::replicas_loss, "mean loss of the replicas, each with its own weights")
      .value("positions", "", &P::positions, "first parameter of each replica")
      .when(&P::positions, "in a task of a few parameters");
}

template <bool kBelow>
std::int64_t replicas_beside_zero(const LearnPoint& p) {
  return std::ranges::count_if(p.positions, [](double w) { return (w < 0) == kBelow; });
}

/// The fields of the journal.
JsonFields<LearnResult> stored_fields() {
  using R = LearnResult;
  return learn_result_fields()
      .value("task", "", &R::task, "name of the learned task")
      .value("mechanism", "", &R::mechanism, "how replicas come to common parameters")
      .value("ranks", "", &R::ranks, "number of ranks")
      .value("parameters", "", &R::parameters, "number of parameters");
}

}  // namespace

const LearnPoint& LearnResult::best() const {
  return *std::ranges::min_element(points, [](const LearnPoint& a, const LearnPoint& b) { return a.loss < b.loss; });
}

const LearnPoint& LearnResult::farthest() const {
  return *std::ranges::max_element(
      points, [](const LearnPoint& a, const LearnPoint& b) { return a.replica_distance < b.replica_distance; });
}

JsonFields<LearnResult> learn_result_fields() {
  using R = LearnResult;
  const auto has_diverged = [](const R& r) { return r.diverged_at >= 0; };
  return JsonFields<R>()
      .value("seed", "", &R::seed, "seed of the initial values and of the order of samples")
      .value("ended", "", &R::ended, "target, steps, early stopping, diverged or interrupted")
      .value("saved_step", "", &R::saved_step, "step whose weights learn.save has: with early_stopping the best one")
      .when([](const R& r) { return r.saved_step >= 0; }, "with learn.save")
      .value("diverged_at_step", "", &R::diverged_at, "step at which the training diverged")
      .value("diverged_loss", "", &R::diverged_loss, "loss at that step; null: it is no number")
      .when_since("diverged_at_step", has_diverged, "if it diverged")
      .value(
          "worse_than_start", "", [](const R& r) { return r.worse_than_start(); },
          "the loss at the end is above the first")
      .object("reached", &R::reached, learn_point_fields(), "evaluation at which the target was reached")
      .in_one_row()
      .when(&R::reached, "if it was reached")
      .value(
          "updates", "", &R::updates,
          "number of updates of single tensors on all servers or replicas; of a loop of post-training: of the policy")
      .value("mean_staleness", "", &R::mean_staleness, "mean number of updates that a gradient missed")
      .value("worst_staleness", "", &R::worst_staleness, "largest number of updates that a gradient missed")
      .value("mean_lambda", "", &R::mean_lambda,
             "mean factor on a gradient, or share of a worker's weights in the new weights of the servers")
      .value("sent_gradient_share", "share", &R::sent_share,
             "bytes of gradients that a replica of the small network sends after compression, over those without it; "
             "1: nothing is compressed")
      .value("timed_sent_gradient_share", "share", &R::timed_sent_share, "this share of the timed network")
      .when_since(
          "sent_gradient_share", [](const R& r) { return r.sent_share != 1 || r.timed_sent_share != 1; },
          "with compression")
      .value("merges", "", &R::merges, "how often all replicas averaged their weights")
      .when(&R::merges, "if they average")
      .object(
          "farthest", [](const R& r) { return r.farthest(); },
          learn_point_fields()
              .value("below_zero", "", replicas_beside_zero<true>, "number of replicas below 0")
              .value("above_zero", "", replicas_beside_zero<false>, "number of the others"),
          "evaluation at which replicas were farthest apart; below_zero, above_zero: replicas on each side of 0")
      .in_one_row()
      .when([](const R& r) { return r.farthest().positions.size() > 1; }, "in a task of a few parameters")
      .list("points", &R::points, learn_point_fields(),
            "evaluations: time_s, steps, samples, bytes, training_loss, loss, accuracy, noise_scale_samples, "
            "replicas_apart; replicas_loss and positions of the replicas in a task of a few parameters")
      .in_one_row();
}

std::string to_text(const LearnResult& r) { return json_text(stored_fields().json(r)); }

LearnResult learn_result_from_text(const std::string& text) {
  LearnResult r;
  stored_fields().read(parse_ordered_json(text), r);
  if (std::isnan(r.diverged_loss)) r.diverged_loss = HUGE_VAL;
  return r;
}

}  // namespace trainyard
