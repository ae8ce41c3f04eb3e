#pragma once
#include "sim/observers/values.hpp"
#include "strategies/plan/training_calls.hpp"

namespace trainyard {

inline Eigen::VectorXd& buffer_of(Values& values, Actor actor, TrainingBuffer::Kind kind, std::size_t index = 0) {
  return values.buffer(actor, number_of({kind, index}));
}

}  // namespace trainyard
