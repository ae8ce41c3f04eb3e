#pragma once
#include <string>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/joins.hpp"

namespace trainyard::execution {

/// Explains why nothing moves although operations are left: names the cycle of waits, or what each actor waits for.
std::string deadlock_report(const Context&, const ActorTable&, const Joins&, std::uint32_t look_ahead);

}  // namespace trainyard::execution
