#include "strategies/step/step_context.hpp"

namespace trainyard {

StepContext::StepContext(int rank_number, const TrainingPlan& whole_plan, const PassTables& pass_tables,
                         const TrainingStreams& rank_streams, const RankPeers& rank_peers)
    : rank(rank_number),
      plan(whole_plan),
      tables(pass_tables),
      words(pass_tables.words()),
      streams(rank_streams),
      peers(rank_peers),
      place(plan.mesh.coordinates(rank)),
      stage(plan.stages[place.pipeline]),
      load(plan.load_number(rank)),
      buckets_of_layer_(plan.network->layers.size()) {
  for (std::size_t b = 0; b < stage.buckets.size(); ++b)
    for (const GradientBucket::Part& part : stage.buckets[b].parts) {
      std::vector<std::size_t>& layer_buckets = buckets_of_layer_[part.layer];
      if (layer_buckets.empty() || layer_buckets.back() != b) layer_buckets.push_back(b);
    }
  if (plan.zero == ZeroStage::none) return;
  for (const bool experts : {false, true}) {
    const std::vector<int> group = zero_group(plan, rank, experts);
    shards_[experts ? 1 : 0] = {static_cast<int>(group.size()),
                                static_cast<int>(std::ranges::find(group, rank) - group.begin())};
  }
}

const Op& StepContext::take_waits() {
  Op& op = out.begin(Kind::mark, TrainingStreams::compute, words.wait_for_messages);
  waits.take_into(op);
  return out.emit();
}

const Op& StepContext::work(const Work& work, Kind kind, GroupId group, NameId name) {
  Op& op = out.begin(kind, TrainingStreams::compute, name, group);
  op.work = work;
  waits.take_into(op);
  return out.emit();
}

const Op& StepContext::change_memory(double bytes, MemoryClass memory_class, NameId name, Stream stream) {
  Op& op = out.begin(Kind::mark, stream, name);
  op.book_memory(bytes, memory_class);
  return out.emit();
}

const Op& StepContext::call(TrainingCall what, const CallArguments& arguments) {
  Op& op = out.begin(Kind::mark, TrainingStreams::compute, words.call);
  op.effect = effect_of(what, arguments);
  waits.take_into(op);
  return out.emit();
}

const Op& StepContext::call_on(Stream stream, TrainingCall what, const CallArguments& arguments, Dep also) {
  Op& op = out.begin(Kind::mark, stream, words.call, 0, also);
  op.effect = effect_of(what, arguments);
  return out.emit();
}

}  // namespace trainyard
