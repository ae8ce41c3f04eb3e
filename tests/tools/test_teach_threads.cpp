// `trainyard teach threads`, `teach tasks` and `teach matrix-product`.
#include <nlohmann/json.hpp>

#include "scenarios/src/lessons/teach_product.hpp"
#include "scenarios/src/lessons/teach_threads.hpp"
#include "sim/json_text.hpp"
#include "tests/tools/teach_shell.hpp"

namespace tools_test_teach_threads {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("a loop takes as many slots as its fullest thread has items", "[teach][threads]") {
  for (const int items : {1, 3, 7})
    for (const int threads : {1, 2, 3, 8}) {
      CAPTURE(items, threads);
      const ThreadLesson lesson = teach_loop(items, threads);
      CHECK(lesson.end == (items + threads - 1) / threads);
      CHECK(lesson.serial == items);
      CHECK(lesson.idle_threads() == std::max(0, threads - items));
      CHECK(lesson.right);
      for (int i = 0; i < items; ++i) CHECK(lesson.results[static_cast<std::size_t>(i)] == 11.0 * (i + 1));
    }
}

TEST_CASE("the slowest function sets the pace of a pipeline of threads", "[teach][threads]") {
  const std::vector<double> times{1, 3, 2};
  for (const int items : {1, 4, 9}) {
    CAPTURE(items);
    const ThreadLesson three = teach_tasks(items, times, 3, 0);
    CHECK(three.end == 6 + 3 * (items - 1));  // the first item passes, then one item every 3 slots
    CHECK(three.serial == 6 * items);
    CHECK(three.right);
    const ThreadLesson five = teach_tasks(items, times, 5, 0);
    CHECK(five.end == three.end);
    CHECK(five.idle_threads() == 2);
    CHECK(teach_tasks(items, times, 1, 0).end == three.serial);
    CHECK(teach_tasks(items, times, 3, 0.5).end == three.end + 1);  // two handovers of the last item
  }
  const ThreadLesson two = teach_tasks(5, {1, 1, 1, 1}, 2, 0);  // two functions on each thread
  CHECK(two.end == 2 * 5 + 2);
  CHECK(two.results.front() == 1 * 2 * 3 * 4 * 5 + 3 * 4 * 5 + 4 * 5 + 5 + 1);
}

TEST_CASE("threads compute a matrix product of any shape, by rows and by columns", "[teach][threads]") {
  for (const bool by_rows : {true, false})
    for (const auto& [m, k, n, threads] :
         {std::array{3, 3, 3, 4}, std::array{5, 2, 7, 3}, std::array{1, 4, 6, 2}, std::array{8, 1, 1, 3}}) {
      CAPTURE(by_rows, m, k, n, threads);
      const ProductLesson lesson = teach_product({m, k, n, threads, by_rows, Bytes{2}});
      CHECK(lesson.right);
      double flops = 0;
      int parts = 0, idle = 0;
      for (const ProductThread& thread : lesson.threads) {
        flops += thread.flops;
        parts += thread.count;
        idle += thread.count == 0 ? 1 : 0;
        CHECK(thread.y == 2.0 * thread.count * (by_rows ? n : m));
        CHECK(lesson.pieces(thread) == (thread.count == 0 ? 0 : by_rows || thread.count == n ? 1 : m));
      }
      CHECK(flops == m * n * (2 * k - 1));
      CHECK(parts == (by_rows ? m : n));
      CHECK(idle == std::max(0, threads - parts));
      CHECK(lesson.weight_copies() == (by_rows ? threads - idle : 1));
      CHECK(lesson.extra_buffer == (by_rows ? 0 : 2.0 * std::max(k, m) * n));
    }
}

TEST_CASE("teach shows threads and products on the screen, as a picture and as a page", "[teach][threads]") {
  const Teacher shell;
  const TopoAnswer loop = shell.teach("threads --items 3 --threads 4 --svg t.svg --html t.html --json t.json");
  CHECK(loop.exit == 0);
  CHECK_THAT(loop.out, Contains("thread 3 ..") && Contains("1 slot; one thread alone takes 3: 3 times as fast") &&
                           Contains("1 thread has nothing to do: there is work for 3"));
  CHECK(parse_json(shell.text("t.json"))["idle_threads"] == 1);
  for (const char* file : {"t.svg", "t.html"}) CHECK_THAT(shell.text(file), Contains("thread 3"));
  const TopoAnswer tasks = shell.teach("tasks --items 3 --stages 2 --threads 3");
  CHECK_THAT(tasks.out, Contains("thread 0 f0 f1 f2 ...") && Contains("thread 1 ...g0 g1 g2 ") &&
                            Contains("thread 2 ............") && Contains("4 slots; one thread alone takes 6"));
  CHECK_THAT(shell.teach("tasks --items 200 --stages 3 --times 1,2,0.5").out,
             Contains("at most 1.75 times as fast, however many threads"));
  CHECK(widest_line(shell.teach("tasks --items 200 --stages 3 --times 1,2,0.5").out) <= 100);
  const TopoAnswer columns = shell.teach("matrix-product --split columns --svg p.svg --html p.html");
  CHECK(columns.exit == 0);
  CHECK_THAT(columns.out, Contains("3 pieces of 4 B, 12 B apart") && Contains("36 B more") && Contains("y equals"));
  CHECK_THAT(shell.text("p.html"), Contains("column 2") && Contains("<svg"));
  CHECK_THAT(shell.teach("matrix-product --threads 4").out, Contains("1 thread has nothing to do: there are 3 rows"));
  shell.check_refused("threads --items 0", "--items 0: 1 to 256 expected");
  shell.check_refused("tasks --stages 3 --times 1,2", "--times 1,2: one time for each of the 3 functions expected");
  shell.check_refused("matrix-product --shape 3x3",
                      "--shape 3x3: M x K x N expected, as in 3x3x3: x is M x K, w is K x N");
  shell.check_refused("matrix-product --split row", "--split row: unknown; did you mean \"rows\"?");
}

}  // namespace tools_test_teach_threads
