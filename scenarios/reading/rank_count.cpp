#include "scenarios/reading/rank_count.hpp"

#include <fmt/format.h>

namespace trainyard {

int read_rank_count(Fields& fields, const char* key, std::int64_t fallback) {
  constexpr std::int64_t most = 1 << 20;
  const std::int64_t count = fields.integer(key, 1, fallback);
  if (count > most)
    fail(fields.place_of(key), fmt::format("{}.{}: {} ranks; at most {}", fields.what(), key, count, most));
  return static_cast<int>(count);
}

}  // namespace trainyard
