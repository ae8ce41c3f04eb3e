#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "sim/executor/op_queue.hpp"

namespace sim_test_op_queue {

using namespace trainyard;

namespace {

/// Operations as collectives yield them, with random changes of the stride.
class OpGenerator {
 public:
  explicit OpGenerator(unsigned seed) : random_(seed) {}
  const Op& next() {
    if (random_() % 8 == 0) rule_ = random_() % 4;
    if (random_() % 16 == 0) op_.message.bytes = Bytes{static_cast<double>(random_() % 5)};
    op_.deps[0].count += rule_ == 0 ? 0 : 1;
    op_.deps[1].count += rule_;
    op_.message.tag += rule_ > 1 ? 1 : 0;
    op_.effect.read.chunk = static_cast<std::uint16_t>((op_.effect.read.chunk + (rule_ == 2 ? 6 : 1)) % 7);
    op_.kind = rule_ == 3 && random_() % 2 == 0 ? Kind::recv : Kind::send;
    return op_;
  }

 private:
  std::mt19937 random_;
  std::uint32_t rule_ = 1;
  Op op_;
};

}  // namespace

TEST_CASE("a queue of operations returns what was pushed, with any strides", "[sim]") {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    OpGenerator generator(seed);
    execution::OpQueue queue;
    std::deque<Op> expected;
    Op head;
    bool same = true;
    std::uint32_t at_once = 0;
    for (int i = 0; i < 2000; ++i) {
      for (auto n = random() % (i % 100 < 50 ? 6 : 3); n > 0; --n) {
        expected.push_back(generator.next());
        queue.push(expected.back());
      }
      if (random() % 16 == 0) {  // many operations with one stride
        const Op first = generator.next();
        const Stride stride = stride_between(first, generator.next());
        const auto many = static_cast<std::uint32_t>(1 + random() % 40);
        at_once += queue.push(first, stride, many);
        for (std::uint32_t k = 0; k < many; ++k) advance(expected.emplace_back(first), stride, k);
      }
      if (const auto regular = queue.run_position(); regular.left > 1 && random() % 4 == 0) {
        const auto skipped = static_cast<std::uint32_t>(1 + random() % (regular.left - 1));
        at_once -= queue.skip(skipped, head);
        expected.erase(expected.begin(), expected.begin() + skipped - 1);
        same = same && head == expected.front();
        expected.pop_front();
      }
      for (auto n = random() % 5; n > 0 && !expected.empty(); --n) {
        at_once -= queue.pop(head);
        head.actor = 0;
        same = same && head == expected.front();
        expected.pop_front();
        // The executor writes the actor, and the size of a message whose program did not know it.
        head.actor = 5;
        head.message.bytes = Bytes{12345};
      }
    }
    CHECK(same);
    for (; !expected.empty(); expected.pop_front()) at_once -= queue.pop(head);
    CHECK(at_once == 0);
  }
}

}  // namespace sim_test_op_queue
