#include "scenarios/src/reading/rank_count.hpp"

namespace trainyard {

int read_rank_count(Fields& fields, Key key, std::int64_t fallback) {
  constexpr int most = 1 << 20;
  return fields.integer_within(key, 1, most, fallback);
}

}  // namespace trainyard
