#pragma once
#include <string>
#include <vector>

#include "scenarios/src/lessons/teach_product.hpp"

namespace trainyard {

/// A row a thread: what it holds and where its part of y goes.
std::string product_text(const ProductLesson&);
/// The three matrices, each element in the colour of the thread that has it.
std::string product_svg(const ProductLesson&);
/// One page that stands alone: the picture and the figures.
std::string product_html(const ProductLesson&);

/// What the views share: "y = x w, 3 x 3 by 3 x 3, on 3 threads by rows of x".
std::string product_title(const ProductLesson&);
/// The figures at the end, a sentence each.
std::vector<std::string> product_sums(const ProductLesson&);

}  // namespace trainyard
