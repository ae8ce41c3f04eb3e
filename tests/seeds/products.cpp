// MM-01: a matrix product y = x w on threads, each with rows of x or with columns of w.
#include "scenarios/src/lessons/teach_product.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

SeedFigures mm_01(const Node& inputs) {
  SeedFigures got;
  for (const bool by_rows : {true, false}) {
    const auto n = static_cast<int>(number_of(inputs, "threads"));
    const ProductLesson lesson = teach_product({n, n, n, n, by_rows, Bytes{number_of(inputs, "bytes")}});
    const ProductThread& thread = lesson.threads.front();
    const std::string prefix = by_rows ? "row_wise " : "column_wise ";
    got[prefix + "w_bytes_per_thread"] = thread.w;
    got[prefix + "x_bytes_per_thread"] = thread.x;
    got[prefix + "y_bytes_per_thread"] = thread.y;
    got[prefix + "w_copies"] = lesson.weight_copies();
    got[prefix + "extra_buffer_bytes"] = lesson.extra_buffer;
    got[prefix + "flops_per_thread"] = thread.flops;
    got[prefix + "equals_product"] = lesson.right;
  }
  return got;
}

const RegisterSeed product_seeds[] = {{"MM-01", mm_01}};

}  // namespace
}  // namespace trainyard
