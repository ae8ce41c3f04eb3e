#include "scenarios/src/reading/epoch_reads.hpp"

#include <numeric>

#include "sim/hashing.hpp"

namespace trainyard {
std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache cache, ReadOrder order, int epoch,
                                std::uint64_t seed) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(files));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  std::vector<Bytes> missed;
  for (int e = 1; e <= epoch; ++e) {
    if (order == ReadOrder::shuffled) shuffle(numbers, seed, static_cast<std::uint64_t>(e));
    missed.clear();
    for (const std::int64_t file : numbers) missed.push_back(cache.read(file, size) ? Bytes{} : size);
  }
  return missed;
}

}  // namespace trainyard
