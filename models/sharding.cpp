#include "models/sharding.hpp"

#include <string>

#include "models/sharding_error.hpp"

namespace trainyard {

void require_tensor_alone(const Sharding& s, const char* what) {
  const std::string of = std::string(what) + ": ";
  if (s.tensor < 1)
    throw ShardingError("tensor", of + "tensor axis: " + std::to_string(s.tensor) + " ranks; expected at least 1");
  if (s.sequence || s.context != 1)
    throw ShardingError(s.context != 1 ? "context" : "sequence",
                        of + "sequence and context parallelism are over the tokens of a transformer; expected neither");
  if (s.expert != 1) throw ShardingError("expert", of + "expert parallelism: there are no experts; expected 1");
  if (s.recompute == Recompute::selective)
    throw UserError(of + "selective recomputation is of attention; expected none or full");
}

}  // namespace trainyard
