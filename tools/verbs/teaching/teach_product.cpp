// `trainyard teach matrix-product`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "models/reading/document.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/teaching/product_views.hpp"
#include "tools/verbs/arguments.hpp"
#include "tools/verbs/teaching/teach.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

constexpr int kMostOfAShape = 512, kMostProductThreads = 64;

/// "3x4x5": an m x k and a k x n matrix.
void read_product_shape(const std::string& text, ProductShape& shape) {
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
    if (size < 1 || size > kMostOfAShape)
      throw UserError(fmt::format("--shape {}: sizes from 1 to {} can be shown", text, kMostOfAShape));
  shape.m = sizes[0];
  shape.k = sizes[1];
  shape.n = sizes[2];
}

int teach_matrix_product(const std::string&, const std::vector<std::string>& words) {
  Arguments arguments("teach matrix-product",
                      "A matrix product y = x w shared out to threads, by rows of x (data parallel) or by columns of w "
                      "(model parallel): what each holds, and how the result comes together.",
                      "teach matrix-product --shape 3x3x3 --threads 3 --split columns");
  std::string shape = "3x3x3", split = "rows", size = "4 B", html, svg, json;
  ProductShape product;
  arguments.option("--shape", shape, "MxKxN", "x is M x K, w is K x N (default 3x3x3)");
  arguments.option("--threads", product.threads, "N", "1 to 64 (default 3)");
  arguments.option("--split", split, "rows|columns", "rows of x (default), or columns of w");
  arguments.option("--element", size, "SIZE", "bytes of a number (default 4 B)");
  arguments.output("--html", html, "a page with picture and figures; - is stdout");
  arguments.output("--svg", svg, "the picture; - is stdout");
  arguments.output("--json", json, "matrices and figures as data; - is stdout");
  if (!arguments.parse(words)) return kGood;
  read_product_shape(shape, product);
  if (product.threads < 1 || product.threads > kMostProductThreads)
    throw UserError(fmt::format("--threads {}: 1 to {} can be shown", product.threads, kMostProductThreads));
  if (split != "rows" && split != "columns")
    throw UserError(fmt::format("--split {}: unknown{}", split, hint(split, {"rows", "columns"})));
  product.by_rows = split == "rows";
  product.element = parse_bytes(size);
  const ProductLesson lesson = teach_product(product);
  if (!html.empty()) write_atomically(html, product_html(lesson));
  if (!svg.empty()) write_atomically(svg, product_svg(lesson));
  if (!json.empty()) write_atomically(json, json_text(product_report(lesson), 2) + "\n");
  if (html != "-" && svg != "-" && json != "-") write_atomically("-", product_text(lesson));
  return lesson.right ? kGood : kBug;
}

const RegisterTeachTopic registered_product{"matrix-product", "a product on threads, by rows or by columns",
                                            teach_matrix_product};

}  // namespace
}  // namespace trainyard
