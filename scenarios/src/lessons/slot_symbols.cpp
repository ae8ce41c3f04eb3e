#include "scenarios/src/lessons/slot_symbols.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Returns a scrambled weight of a slot. The weights of two slots do not sum to twice the weight of the slot between
/// them, so a mixture of slots shows.
int scrambled(int slot) { return (slot * 37 + slot * slot * 11) % 101 + 1; }

std::string letters(int slot) {
  std::string name;
  for (int left = slot + 1; left > 0; left = (left - 1) / 26)
    name.insert(name.begin(), static_cast<char>('a' + (left - 1) % 26));
  return name;
}

/// Returns true if `part` comes from the rank after that of `before`, and both count once.
bool follows(const Contribution& before, const Contribution& part) {
  return part.slot == before.slot && part.rank == before.rank + 1 && part.count == 1 && before.count == 1;
}

/// Returns a number as an integer; −1 if it is no integer from 0 to 999,999.
int to_integer(double value) {
  const double nearest = std::round(value);
  return std::abs(value - nearest) < 1e-6 && nearest >= 0 && nearest < 1e6 ? static_cast<int>(nearest) : -1;
}

}  // namespace

SlotSymbols::SlotSymbols(Operation operation, const CollectiveSettings& settings, int ranks, int slots, int labels_from)
    : operation_(operation),
      reduction_(settings.reduction),
      ranks_(ranks),
      root_(settings.root),
      slots_(slots),
      labels_from_(labels_from) {}

bool SlotSymbols::holds(int rank, int slot) const {
  switch (operation_) {
    case Operation::all_gather:
    case Operation::gather:
      return slot / slots_per_block() == rank;
    case Operation::broadcast:
    case Operation::scatter:
      return rank == root_;
    default:
      return true;
  }
}

bool SlotSymbols::is_promised(int rank, int slot) const {
  switch (operation_) {
    case Operation::reduce:
    case Operation::gather:
      return rank == root_;
    case Operation::reduce_scatter:
    case Operation::scatter:
      return slot / slots_per_block() == rank;
    default:
      return true;
  }
}

Eigen::VectorXd SlotSymbols::initial(int rank) const {
  Eigen::VectorXd numbers = empty();
  for (int slot = 0; slot < slots_; ++slot) {
    if (!holds(rank, slot)) continue;
    auto of_slot = numbers.segment(slot * numbers_per_slot(), numbers_per_slot());
    of_slot[3 * rank] = 1;
    of_slot[3 * rank + 1] = slot + 1;
    of_slot[3 * rank + 2] = scrambled(slot);
    if (reduces(operation_) && reduction_ == Reduction::product)
      of_slot = of_slot.unaryExpr([](double v) { return std::exp2(v); }).eval();
  }
  return numbers;
}

SlotContent SlotSymbols::read(const Eigen::VectorXd& buffer, int slot, int rank) const {
  Eigen::VectorXd numbers = buffer.segment(slot * numbers_per_slot(), numbers_per_slot());
  SlotContent content;
  if (reduces(operation_) && reduction_ == Reduction::product)
    numbers = numbers.unaryExpr([](double v) { return v > 0 ? std::log2(v) : 0; });
  for (int i = 0; i < ranks_; ++i) {
    double count = numbers[3 * i];
    if (count == 0) continue;
    double scale = 1;
    if (to_integer(count) < 0) {
      content.divided = true;
      scale = ranks_;
    }
    const int from = to_integer(numbers[3 * i + 1] / count) - 1, times = to_integer(count * scale);
    if (from < 0 || from >= slots_ || times < 1 ||
        std::abs(numbers[3 * i + 2] - count * scrambled(from)) > 1e-6 * numbers[3 * i + 2])
      content.unknown = true;
    content.parts.push_back({from, i, times});
  }
  std::ranges::sort(content.parts, {}, [](const Contribution& part) { return std::pair(part.slot, part.rank); });
  content.complete = complete(content, slot, rank);
  content.stale = !exchanges() &&
                  std::ranges::any_of(content.parts, [slot](const Contribution& part) { return part.slot != slot; });
  content.text = text(content);
  return content;
}

bool SlotSymbols::complete(const SlotContent& content, int slot, int rank) const {
  if (content.unknown) return false;
  if (reduces(operation_)) {
    const bool divides = reduction_ == Reduction::average;
    return content.divided == divides && static_cast<int>(content.parts.size()) == ranks_ &&
           std::ranges::all_of(content.parts,
                               [slot](const Contribution& part) { return part.slot == slot && part.count == 1; });
  }
  Contribution wanted{slot, root_, 1};
  if (operation_ == Operation::all_gather || operation_ == Operation::gather) wanted.rank = slot / slots_per_block();
  if (operation_ == Operation::send_recv) wanted.rank = (rank + ranks_ - 1) % ranks_;
  if (exchanges()) wanted = {rank * slots_per_block() + slot % slots_per_block(), slot / slots_per_block(), 1};
  return content.parts.size() == 1 && content.parts.front() == wanted;
}

std::string SlotSymbols::slot_name(int slot) const {
  if (!exchanges()) return letters(slot);
  const int block = slots_per_block();
  return fmt::format("block {}{}", slot / block + labels_from_, block > 1 ? letters(slot % block) : "");
}

std::string SlotSymbols::word(const Contribution& part) const {
  const int rank = part.rank + labels_from_;
  if (!exchanges()) return letters(part.slot) + std::to_string(rank);
  const int block = slots_per_block();
  return fmt::format("{}→{}{}", rank, part.slot / block + labels_from_, block > 1 ? letters(part.slot % block) : "");
}

std::string SlotSymbols::text(const SlotContent& content) const {
  if (content.unknown) return "?";
  if (content.parts.empty()) return "·";
  const auto& parts = content.parts;
  const bool maximum = reduces(operation_) && reduction_ == Reduction::maximum;
  const bool product = reduces(operation_) && reduction_ == Reduction::product;
  const char* between = maximum ? "," : product ? "·" : "+";
  std::string all;
  for (std::size_t i = 0; i < parts.size();) {
    std::size_t end = i + 1;  // end of a run of neighbouring ranks
    while (end < parts.size() && follows(parts[end - 1], parts[end])) ++end;
    const auto add = [&](const std::string& term) { all += (all.empty() ? "" : between) + term; };
    if (end - i >= 5) {  // shorter runs are written out
      add(word(parts[i]));
      add("…");
      add(word(parts[end - 1]));
      i = end;
      continue;
    }
    const int count = maximum ? 1 : parts[i].count;
    add(count == 1 ? word(parts[i])
        : product  ? fmt::format("{}^{}", word(parts[i]), count)
                   : fmt::format("{}·{}", count, word(parts[i])));
    ++i;
  }
  if (maximum && parts.size() > 1) all = "max(" + all + ")";
  if (!content.divided) return all;
  return parts.size() > 1 ? fmt::format("({})/{}", all, ranks_) : fmt::format("{}/{}", all, ranks_);
}

namespace {

/// The size of a lesson. Each write may be a separate step, and each step shows the slots of all buffers.
struct LessonSize {
  std::int64_t slots = 1, writes = 0;  ///< slots of a buffer, and writes of all ranks
};

constexpr std::int64_t kMostShown = 1'000'000;

/// Counts slots up to the first number above `most`.
LessonSize lesson_size(const Collective& collective, int ranks, const std::vector<Actor>& members,
                       const CollectiveOptions& options, int most) {
  LessonSize size{has_rank_blocks(collective.operation) ? ranks : 1};
  const auto fit = [&size](const BufferRef& ref) {
    if (!ref) return;
    for (const int edge : {static_cast<int>(ref.chunk), ref.chunk + ref.count})
      size.slots =
          std::lcm(size.slots, static_cast<std::int64_t>(ref.chunks / std::gcd(static_cast<int>(ref.chunks), edge)));
  };
  for (std::size_t member = 0; member < members.size(); ++member) {
    Names names;
    const auto program = collective_program(collective, {static_cast<int>(member), ranks}, options, names, members);
    OpReader reader(*program);
    for (Op op; reader.next(op) == Pull::op;) {
      fit(op.effect.read);
      fit(op.effect.write);
      if (size.slots > most) return size;
      if (op.effect.write) ++size.writes;
    }
  }
  return size;
}

/// Says which flag makes a lesson small enough: a chunk larger by a power of two, if one does.
std::string size_advice(CollectiveOptions options, const std::function<bool(const CollectiveOptions&)>& fits) {
  const Bytes smallest = options.settings.chunk;
  for (Bytes& chunk = options.settings.chunk; chunk < options.size;) {
    chunk = chunk * 2.0;
    if (fits(options)) return fmt::format("take --chunk {:.6g}KiB, or fewer --ranks", chunk.value / 1024);
  }
  return smallest < options.size ? "take fewer --ranks or --channels" : "take fewer --ranks";
}

}  // namespace

int slots_needed(const Collective& collective, int ranks, const std::vector<Actor>& members,
                 const CollectiveOptions& options, int most) {
  const auto shown = [ranks](const LessonSize& size) { return size.writes * ranks * size.slots; };
  const auto fits = [&](const CollectiveOptions& others) {
    const LessonSize size = lesson_size(collective, ranks, members, others, most);
    return size.slots <= most && shown(size) <= kMostShown;
  };
  const LessonSize size = lesson_size(collective, ranks, members, options, most);
  if (size.slots > most)
    throw UserError(fmt::format("the buffers would have {} slots or more, at most {} are shown: {}", size.slots, most,
                                size_advice(options, fits)));
  if (shown(size) > kMostShown)
    throw UserError(fmt::format("{} writes to {} ranks' buffers of {} slots are more than {} slots to show: {}",
                                with_commas(static_cast<double>(size.writes)), ranks, size.slots,
                                with_commas(kMostShown), size_advice(options, fits)));
  return static_cast<int>(size.slots);
}

}  // namespace trainyard
