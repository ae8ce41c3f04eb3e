#include "strategies/mechanisms/servers/server_plan.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "strategies/plan/gradient_shape.hpp"

namespace trainyard {

const std::vector<std::string>& consistency_names() {
  static const std::vector<std::string> names{"synchronous", "stale", "asynchronous"};
  return names;
}

const std::vector<ServerRule>& server_rules() {
  static const std::vector<ServerRule> rules{{"optimizer", true, false}, {"sum", false, false}, {"mean", false, true}};
  return rules;
}

ServerLabel parse_server_label(const std::string& label, const Place& where) {
  ServerLabel read;
  const char* cursor = label.data();
  const char* const end = cursor + label.size();
  const auto number = [&](int& into, std::string_view unit) {
    const auto [next, error] = std::from_chars(cursor, end, into);
    const std::string_view rest(next, static_cast<std::size_t>(end - next));
    if (error != std::errc{} || into < 1 || !rest.starts_with(unit))
      fail(where, fmt::format("\"{}\" is no label of workers and servers; expected one such as 8W2PS", label));
    cursor = next + unit.size();
  };
  number(read.workers, "W");
  number(read.servers, "PS");
  if (cursor != end) fail(where, fmt::format("\"{}\": nothing expected after \"PS\", as in 8W2PS", label));
  return read;
}

ServerPlan::Slices ServerPlan::slices_up_to(std::size_t k) const {
  Slices slices{first_slice[k], 0, {}, {}};
  if (k + 1 < keys() && first_slice[k + 1] == slices.first) return slices;
  slices.count = k + 1 - slices.first;
  for (std::size_t i = slices.first; i <= k; ++i) {
    slices.push += push_bytes(i);
    slices.pull += pull_bytes(i);
  }
  return slices;
}

std::size_t joined_slices(const ServerPlan& plan, const ServerPlan::Slices& slices) {
  return slices.count == 1 ? slices.first : plan.keys() + slices.first;
}

Bytes ServerPlan::push_bytes(std::size_t k) const {
  if (base.step.compression) return payload(k).bytes;
  return key(k).elements * (mixes() ? base.step.parameter_element : base.step.gradient_element);
}
ServerPlan::Payload ServerPlan::payload(std::size_t k) const {
  const Compression all = base.step.compression->compress(gradient_shape(base.step, key(k)));
  Payload payload{all.rounds.front().bytes, {}};
  for (const KernelCall& kernel : all.decode) payload.decode += kernel.work.bytes;
  return payload;
}
Bytes ServerPlan::pull_bytes(std::size_t k) const {
  return key(k).elements * (workers_update() ? base.step.gradient_element : base.step.parameter_element);
}
Bytes ServerPlan::copy_bytes(std::size_t k) const {
  return workers_update() ? pull_bytes(k) : pull_bytes(k) + key(k).elements * replication.state;
}

double ServerPlan::share_of(std::size_t k) const {
  return elements > 0 ? key(k).elements / elements : 1 / static_cast<double>(keys());
}

ServerPlan server_plan(TrainingPlan workers, int servers, KeySharding sharding, const Place& where,
                       const KeySplit& split) {
  ServerPlan plan;
  plan.base = central_plan(std::move(workers));
  plan.servers = servers;
  plan.rule = server_rules().front();
  TrainingPlan& step = plan.base.step;
  SharedKeys shared = share_out(step.stages.front().buckets, servers, sharding, split, step.gradient_element);
  step.stages.front().buckets = std::move(shared.keys);
  for (const GradientBucket& key : step.stages.front().buckets) plan.elements += key.elements;
  plan.server_of = std::move(shared.server_of);
  plan.first_slice = std::move(shared.first_slice);
  if (static_cast<std::size_t>(servers) > plan.keys() && !split.is_used())
    fail(where, fmt::format("{} servers, but {} has {} keys: at most as many servers as keys, or split: mxnet or "
                            "byteps, which cuts large keys over several servers",
                            servers, step.network->name, plan.keys()));
  constexpr std::size_t most_keys = 65535;
  if (plan.keys() > most_keys)
    fail(where, fmt::format("{} is cut into {} keys; at most {}: larger parts are fewer", step.network->name,
                            plan.keys(), most_keys));
  plan.mixing = plan.base.addition;  // two tensors read, one written
  return plan;
}

Effect ServerPush::effect(ServerCall call) const {
  return effect_of(call, {arrival, worker, 0, static_cast<std::uint16_t>(key)});
}

ServerPush ServerPush::from_call(const CallArguments& call) {
  return {call.buffer, call.micro_batch, static_cast<std::uint16_t>(call.index)};
}

}  // namespace trainyard
