#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Reads the section. Throws UserError with the place: for what is not modelled, for a plan that splits the model (its
/// ranks compute what replicas of a whole model do), and of the rest of `scenario`, which must be read before.
LearnChoice read_learn(const Node&, const Scenario& scenario);

}  // namespace trainyard
