#include "strategies/mechanisms/central/embedding_server.hpp"

#include <algorithm>

#include "sim/index.hpp"
#include "strategies/collectives/emitter.hpp"
#include "strategies/plan/training_buffers.hpp"
#include "strategies/plan/training_calls.hpp"

namespace trainyard {
namespace {

class EmbeddingServer : public CoroutineProgram {
 public:
  EmbeddingServer(const TrainingPlan& plan, const TrainingStates& states, const RemoteNames& words)
      : CoroutineProgram(consecutive_numbers(Actor{0}, plan.ranks()), kSends + send_streams(plan)),
        plan_(plan),
        states_(states),
        words_(words) {}

 protected:
  Ops run() override {
    for (const MemoryPart& part :
         model_states({table_elements(), table_elements(), table_elements()}, states_.precision, states_.optimizer)
             .parts) {
      Op& op = begin(Kind::mark, kWork, words_.hold);
      op.book_memory(part.bytes.value, part.memory_class);
      co_yield out_.emit();
    }
    for (int step = 0; step < plan_.steps; ++step) {
      co_yield serve(step);
      co_yield collect(step);
    }
    if (plan_.values_by_layer()) co_yield serve(plan_.steps);
  }

 private:
  static constexpr Stream kWork = 0, kReceives = 1, kSends = 2;
  const TrainingPlan& plan_;
  const TrainingStates& states_;
  const RemoteNames& words_;
  Emitter out_;

  static int send_streams(const TrainingPlan& plan) { return std::min(plan.ranks(), kMaxStreams - int{kSends}); }
  const std::vector<GradientBucket>& buckets() const { return plan_.stages.front().buckets; }
  double table_elements() const {
    double elements = 0;
    for (const GradientBucket& bucket : buckets())
      if (is_remote(bucket)) elements += bucket.elements;
    return elements;
  }

  Op& begin(Kind kind, Stream stream, NameId name) {
    return out_.begin(kind, stream, name, kind == Kind::send || kind == Kind::recv ? words_.lookups : words_.work);
  }
  Op& message(Kind kind, Stream stream, int rank, Tag tag, NameId name) {
    Op& op = begin(kind, stream, name);
    op.address(rank, tag, Mode::put);
    return op;
  }
  /// Work in the memory of the CPU, after all that has been received so far.
  const Op& work(Bytes bytes, NameId name) {
    Op& op = begin(Kind::local, kWork, name);
    op.work.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
    op.work.precision = static_cast<std::uint8_t>(states_.precision);
    op.work.bytes = bytes;
    op.deps[0] = out_.last_operation(kReceives);
    return out_.emit();
  }
  const Op& call(TrainingCall what, std::size_t bucket) {
    Op& op = begin(Kind::mark, kWork, words_.call);
    op.effect = effect_of(what, CallArguments::of_bucket(bucket));
    op.deps[0] = out_.last_operation(kReceives);
    return out_.emit();
  }

  Ops serve(int step) {
    if (plan_.values_by_layer())
      for (std::size_t b = 0; b < buckets().size(); ++b)
        if (is_remote(buckets()[b])) co_yield call(TrainingCall::fill_parameters, b);
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      message(Kind::recv, kReceives, rank, remote_tag(RemoteContent::request, step, 0), words_.request);
      co_yield out_.emit();
      for (std::size_t b = 0; b < buckets().size(); ++b) {
        if (!is_remote(buckets()[b])) continue;
        const Bytes rows = plan_.parameter_element * looked_up_elements(plan_, buckets()[b]);
        co_yield work(rows * 2.0, words_.gather);  // read, and written into the message
        Op& op = message(Kind::send, static_cast<Stream>(kSends + rank % send_streams(plan_)), rank,
                         remote_tag(RemoteContent::rows, step, b), words_.rows);
        op.message.bytes = rows;
        op.deps[0] = out_.last_operation(kWork);
        if (plan_.values_by_layer()) op.effect.read = {number_of({TrainingBuffer::Kind::parameters, b}), 0, 1};
        co_yield out_.emit();
      }
    }
  }

  /// Sums the gradients of each bucket, starting with a copy of the first, and updates the rows.
  Ops collect(int step) {
    double updated_elements = 0;
    for (std::size_t b = 0; b < buckets().size(); ++b) {
      if (!is_remote(buckets()[b])) continue;
      const double elements = looked_up_elements(plan_, buckets()[b]);
      updated_elements += std::min(buckets()[b].elements, elements * plan_.ranks());
      for (int rank = 0; rank < plan_.ranks(); ++rank) {
        Op& op = message(Kind::recv, kReceives, rank, remote_tag(RemoteContent::gradients, step, b), words_.push);
        if (plan_.values_by_layer())
          op.write_to({number_of({TrainingBuffer::Kind::gradients, b}), 0, 1},
                      rank == 0 ? Action::copy : Action::reduce);
        co_yield out_.emit();
        if (rank > 0) co_yield work(plan_.gradient_element * (3 * elements), words_.add);  // two read, one written
      }
    }
    Op& op = begin(Kind::local, kWork, words_.update);
    op.work = optimizer_work(updated_elements, states_.precision, states_.optimizer);
    op.deps[0] = out_.last_operation(kReceives);
    co_yield out_.emit();
    if (plan_.values_by_layer()) co_yield call(TrainingCall::update, 0);
  }
};

}  // namespace

bool is_remote(const GradientBucket& bucket) { return bucket.parts.front().layer == 0; }

double tokens_of_step(const TrainingPlan& plan) {
  return static_cast<double>(plan.network->tokens()) * plan.micro_batches;
}

double looked_up_elements(const TrainingPlan& plan, const GradientBucket& bucket) {
  double elements = 0;
  for (const GradientBucket::Part& part : bucket.parts) {
    const double rows = plan.network->layers.front().parameters[static_cast<std::size_t>(part.tensor)].rows;
    const bool table = rows > 0 && !plan.network->weights_reused;
    elements += table ? part.elements * std::min(1.0, tokens_of_step(plan) / rows) : part.elements;
  }
  return elements;
}

std::unique_ptr<Program> embedding_server(const TrainingPlan& plan, const TrainingStates& states,
                                          const RemoteNames& words) {
  return std::make_unique<EmbeddingServer>(plan, states, words);
}

}  // namespace trainyard
