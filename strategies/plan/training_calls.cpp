#include "strategies/plan/training_calls.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"

namespace trainyard {
namespace {

std::uint16_t packed(int value) {
  if (value < 0 || value > 0xffff) throw InternalError(fmt::format("a call with {}, beyond 16 bits", value));
  return static_cast<std::uint16_t>(value);
}

}  // namespace

Effect call_effect(std::uint16_t call, const CallArguments& a) {
  Effect effect;
  effect.action = Action::call;
  effect.call = call;
  effect.read = {packed(a.index), packed(a.micro_batch), 0, packed(a.exchange)};
  effect.write = {a.buffer, 0, 0};
  return effect;
}

CallArguments arguments_of(const Effect& effect) {
  return {effect.read.buffer, effect.read.chunk, effect.read.count, effect.write.buffer};
}

void CallDispatcher::add(std::uint16_t call, Function function) {
  values_.on_call(call, [f = std::move(function)](Actor actor, const Op& op) { f(actor, arguments_of(op.effect)); });
}

}  // namespace trainyard
