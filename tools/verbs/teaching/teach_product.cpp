// `trainyard teach matrix-product`.
#include <fmt/format.h>

#include <sstream>

#include "scenarios/src/lessons/teach_product.hpp"
#include "tools/verbs/teaching/teach.hpp"

namespace trainyard {
namespace {

/// Reads a shape m x k x n such as "3x4x5": x is an m x k matrix, w a k x n matrix.
void read_product_shape(const std::string& text, ProductShape& shape) {
  constexpr int kMost = 512;
  std::vector<int> sizes;
  std::istringstream in(text);
  try {
    for (std::string word; std::getline(in, word, 'x');) sizes.push_back(static_cast<int>(parse_integer(word)));
  } catch (const UserError&) {
    sizes.clear();
  }
  if (sizes.size() != 3)
    throw UserError(fmt::format("--shape {}: M x K x N expected, as in 3x3x3: x is M x K, w is K x N", text));
  for (const int size : sizes)
    if (size < 1 || size > kMost)
      throw UserError(fmt::format("--shape {}: sizes from 1 to {} can be shown", text, kMost));
  shape.m = sizes[0];
  shape.k = sizes[1];
  shape.n = sizes[2];
}

std::function<LessonView()> matrix_product(const std::string&, Arguments& arguments) {
  struct Flags {
    std::string shape = "3x3x3", split = "rows", element = "4 B";
    ProductShape product;
  };
  const auto flags = std::make_shared<Flags>();
  arguments.option("--shape", flags->shape, "MxKxN", "x is M x K, w is K x N (default 3x3x3)");
  arguments.option("--threads", flags->product.threads, "N", "number of threads, 1 to 64 (default 3)", 1, 64);
  arguments.choice("--split", flags->split, {"rows", "columns"}, "rows|columns",
                   "divide the rows of x (default), or the columns of w");
  arguments.option("--element", flags->element, "SIZE", "size of a number (default 4 B)");
  return [flags] {
    read_product_shape(flags->shape, flags->product);
    flags->product.by_rows = flags->split == "rows";
    flags->product.element = parse_bytes(flags->element);
    return lesson_view(teach_product(flags->product));
  };
}

const RegisterTeachTopic registered_product{
    {"matrix-product", "divide a matrix product among threads, by rows or by columns",
     "Divides a matrix product y = x w among threads, by rows of x (data parallel) or by columns of w (model "
     "parallel), and shows what each thread holds and how the result is put together.",
     "teach matrix-product --shape 3x3x3 --threads 3 --split columns", matrix_product}};

}  // namespace
}  // namespace trainyard
