#include "scenarios/epoch_reads.hpp"

#include <numeric>

#include "topologies/hashing.hpp"

namespace trainyard {
namespace {

/// Fisher and Yates: every order is as likely.
void shuffle(std::vector<std::int64_t>& order, std::uint64_t seed, int epoch) {
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[hashed({seed, static_cast<std::uint64_t>(epoch), left}) % left]);
}

}  // namespace

std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache cache, ReadOrder order, int epoch,
                                std::uint64_t seed) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(files));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  std::vector<Bytes> missed;
  for (int e = 1; e <= epoch; ++e) {
    if (order == ReadOrder::shuffled) shuffle(numbers, seed, e);
    missed.clear();
    for (const std::int64_t file : numbers) missed.push_back(cache.read(file, size) ? Bytes{} : size);
  }
  return missed;
}

}  // namespace trainyard
