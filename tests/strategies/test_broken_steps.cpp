// A fault in a simulated training step changes its numbers, or is an error.
#include <catch2/catch.hpp>
#include <functional>

#include "numeric_tasks.hpp"
#include "split_steps.hpp"
#include "strategies/plan/training_plan.hpp"

namespace strategies_test_broken_steps {

using namespace trainyard;
using namespace trainyard::test;

namespace {

struct Strategy {
  std::string name;
  TrainingTask task;
  SplitStep split;
};

/// Returns one step of each strategy, on few ranks.
std::vector<Strategy> strategies() {
  std::vector<Strategy> all;
  const auto add = [&all](std::string name, TrainingTask task, SplitStep s, auto change) {
    change(s);
    task.seed = 9;  // with this seed the tokens of every rank have words of both halves of the vocabulary
    all.push_back({std::move(name), std::move(task), std::move(s)});
  };
  const auto no_change = [](SplitStep&) {};
  add("data", small_llama(), split(2, 1, 1), no_change);
  for (const ZeroStage stage : {ZeroStage::optimizer, ZeroStage::gradients, ZeroStage::parameters})
    add("ZeRO", small_llama(), split(2, 1, 1), [&](SplitStep& s) { s.zero = stage; });
  add("hybrid sharding", small_llama(), split(4, 1, 1), [](SplitStep& s) {
    s.zero = ZeroStage::parameters;
    s.zero_group = 2;
  });
  add("ZeRO in a pipeline", small_llama(), split(2, 2, 1), [](SplitStep& s) {
    s.zero = ZeroStage::parameters;
    s.micro_batches = 3;
  });
  add("tensor", small_llama(), split(1, 1, 2), no_change);
  add("sequence", small_llama(), split(1, 1, 2), [](SplitStep& s) { s.sharding.sequence = s.sharding.overlap = true; });
  add("recomputed tensor", small_llama(), split(1, 1, 2), [](SplitStep& s) { s.sharding.recompute = Recompute::full; });
  add("ring attention", small_llama(), split(1, 1, 1, 2), no_change);
  add("all-to-all attention", small_llama(), split(1, 1, 1, 2),
      [](SplitStep& s) { s.sharding.context_exchange = ContextExchange::all_to_all; });
  add("experts", small_mixtral(), split(2, 1, 1, 1, 2), no_change);
  add("columns", small_mlp(), split(1, 1, 2), [](SplitStep& s) { s.sharding.linear_split = LinearSplit::columns; });
  add("rows", small_mlp(), split(1, 1, 2), [](SplitStep& s) { s.sharding.linear_split = LinearSplit::rows; });
  for (const OffloadDevice parameters : {OffloadDevice::none, OffloadDevice::cpu, OffloadDevice::nvme})
    add("offload", small_llama(), split(2, 1, 1), [&](SplitStep& s) {
      s.zero = parameters == OffloadDevice::none ? ZeroStage::gradients : ZeroStage::parameters;
      s.optimizer = parameters == OffloadDevice::nvme ? OffloadDevice::nvme : OffloadDevice::cpu;
      s.parameters = parameters;
    });
  add("activations on the host", small_llama(), split(2, 1, 1), [](SplitStep& s) { s.activations_ahead = 1; });
  for (const char* schedule : {"naive", "gpipe", "1f1b", "zb-auto", "zb-h1", "zb-2p", "interleaved-1f1b", "dualpipe",
                               "dualpipe-v", "zb-v", "v-half", "v-min"})
    add(schedule, small_gpt2(), with_schedule(split(1, 2, 1), schedule), no_change);
  return all;
}

/// Returns the indices of the first, the middle and the last operation of a rank for which `is_wanted` returns true.
std::vector<int> some_positions(const std::vector<Op>& ops, const std::function<bool(const Op&)>& is_wanted) {
  std::vector<int> found;
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (is_wanted(ops[i])) found.push_back(static_cast<int>(i));
  if (found.size() <= 3) return found;
  return {found.front(), found[found.size() / 2], found.back()};
}

bool is_pass(const Op& op) {
  return op.effect.action == Action::call &&
         op.effect.call <= static_cast<std::uint16_t>(TrainingCall::backward_weights) &&
         op.effect.read.count == kEndOfPass;
}

bool is_noticed(const StepOutcome& out) { return !out.error.empty() || out.hazards > 0 || out.difference > 1e-8; }

void check_noticed(const Strategy& s, const char* what, const std::vector<int>& numbers,
                   const std::function<void(Op&)>& change) {
  for (const int number : numbers) {
    CAPTURE(s.name, what, number);
    CHECK(is_noticed(simulated_step(s.task, s.split, [&](Op& op, int rank, int position, const std::string&) {
      if (rank == 1 && position == number) change(op);
    })));
  }
}

}  // namespace

TEST_CASE("a broken message, order or shard of any strategy is noticed", "[parallel-values]") {
  for (const Strategy& s : strategies()) {
    const std::vector<Op> ops = operations_of(s.task, s.split, 1);
    const std::vector<int> messages =
        some_positions(ops, [](const Op& op) { return op.kind == Kind::recv && op.effect.action != Action::none; });
    CAPTURE(s.name);
    CHECK(!messages.empty());
    check_noticed(s, "message lost", messages, [](Op& op) { op.effect = {}; });
    const auto offloaded = [](const Op& op) { return op.kind == Kind::join && op.effect.action != Action::none; };
    if (s.split.optimizer != OffloadDevice::none || s.split.activations_ahead >= 0)
      for (const HostTransfer way : {HostTransfer::to_host, HostTransfer::in_host, HostTransfer::from_host,
                                     HostTransfer::drive_read, HostTransfer::drive_write})
        check_noticed(
            s, name_of(way),
            some_positions(
                ops, [&](const Op& op) { return offloaded(op) && op.message.slot == kLanes + static_cast<int>(way); }),
            [](Op& op) { op.effect = {}; });
    const std::vector<int> passes = some_positions(ops, is_pass);
    CHECK(passes.size() == 3);
    check_noticed(s, "another layer's turn", passes,
                  [](Op& op) { op.effect.read.buffer = static_cast<std::uint16_t>(op.effect.read.buffer ^ 1U); });
    const std::vector<int> parts =
        some_positions(ops, [](const Op& op) { return op.kind == Kind::send && op.effect.read.chunks > 1; });
    check_noticed(s, "another part", parts, [](Op& op) {
      op.effect.read.chunk = static_cast<std::uint16_t>((op.effect.read.chunk + 1) % op.effect.read.chunks);
    });
    if (parts.empty())
      check_noticed(s, "another micro-batch", {passes.front(), passes.back()},
                    [](Op& op) { op.effect.read.chunk = static_cast<std::uint16_t>(op.effect.read.chunk ^ 1U); });
  }
}

TEST_CASE("an exchange that is left out is noticed", "[parallel-values]") {
  // No rank uses the values that its messages bring.
  const auto check_without = [](const TrainingTask& task, const SplitStep& s, const std::string& exchange) {
    CAPTURE(exchange);
    bool has_receives = false;
    for (int rank = 0; rank < s.mesh.ranks(); ++rank) has_receives |= !receives_of(task, s, rank, exchange).empty();
    CHECK(has_receives);
    CHECK(is_noticed(simulated_step(task, s, [&](Op& op, int, int, const std::string& name) {
      if (op.kind == Kind::recv && name.ends_with(exchange)) op.effect = {};
    })));
  };
  SplitStep s = split(2, 2, 2);
  s.micro_batches = 2;
  s.sharding.sequence = true;
  for (const char* name : {" embedding.scatter",
                           " embedding.gather",
                           " attention.gather",
                           " attention.regather",
                           " attention.scatter",
                           " attention.scatter.backward",
                           " attention.gather.backward",
                           " mlp.gather",
                           " mlp.regather",
                           " mlp.scatter",
                           " mlp.scatter.backward",
                           " mlp.gather.backward",
                           " head.gather",
                           " head.regather",
                           " head.maximum",
                           " head.sums",
                           " head.gather.backward",
                           "all-reduce gradients of norms over tensor ranks",
                           "all-reduce gradient of the tied weight",
                           "all-reduce bucket 0"})
    check_without(small_gpt2(), s, name);
  check_without(small_mixtral(), s, "all-reduce gradients of norms over tensor ranks");
  s.sharding.sequence = false;
  for (const char* name : {" embedding.reduce", " attention.reduce", " attention.reduce.backward", " mlp.reduce",
                           " mlp.reduce.backward", " head.reduce.backward"})
    check_without(small_gpt2(), s, name);
  for (const char* name : {" attention.keys.0", " attention.keys.1", " attention.keys.0.backward",
                           " attention.key_gradients.0", " attention.key_gradients.3"})
    check_without(small_llama(), split(1, 1, 1, 4), name);
  s = split(1, 1, 1, 2);
  s.sharding.context_exchange = ContextExchange::all_to_all;
  for (const char* name :
       {" attention.heads", " attention.tokens", " attention.heads.backward", " attention.tokens.backward"})
    check_without(small_llama(), s, name);
  s = split(1, 1, 1, 4);
  s.mesh.ulysses = s.sharding.ulysses = 2;
  for (const char* name : {" attention.heads", " attention.tokens", " attention.heads.backward", " attention.keys.0",
                           " attention.keys.0.backward", " attention.key_gradients.0", " attention.key_gradients.1"})
    check_without(small_llama(), s, name);
  for (const char* name :
       {" experts.dispatch", " experts.return", " experts.dispatch.backward", " experts.return.backward"})
    check_without(small_mixtral(), split(2, 1, 1, 1, 2), name);
  for (const char* name :
       {" experts.gather", " experts.scatter", " experts.gather.backward", " experts.scatter.backward"})
    check_without(small_mixtral(), with_expert_tensor(split(2, 1, 1, 1, 1), 2), name);
}

TEST_CASE("a shard of another rank is noticed", "[parallel-values]") {
  for (const int layer : {0, 1, 3}) {
    CAPTURE(layer);
    CHECK(is_noticed(simulated_step(small_gpt2(), split(1, 1, 2), {}, [layer](TrainingValues& step) {
      const Eigen::VectorXd other = step.parameters(0).layer(layer).parameters;
      step.parameters(1).layer(layer).parameters = layer == 3 ? Eigen::VectorXd(other * 1.01) : other;
    })));
  }
}

}  // namespace strategies_test_broken_steps
