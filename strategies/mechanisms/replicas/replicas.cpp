#include "strategies/mechanisms/replicas/replicas.hpp"

#include <fmt/format.h>

namespace trainyard {

void WholeReplicas::settle(Fields& fields, const MechanismSetting& setting) {
  const auto refuse = [&](const char* why) { fields.refuse(key_, fmt::format("{}", why)); };
  if (setting.splits_model)
    refuse(
        "replicas of a whole model only: no tensor, pipeline, context or expert parallelism, no ZeRO, no "
        "recomputation, and mechanism all-reduce");
  if (setting.mesh.ranks() == 1) refuse("there is one rank only, and nobody to exchange with");
}

}  // namespace trainyard
