#pragma once
#include <catch2/catch.hpp>
#include <regex>
#include <string>
#include <vector>

namespace trainyard::test {

/// Checks that tags balance, and that every '<' and '&' is part of XML.
inline void well_formed(const std::string& svg) {
  const std::regex tag("<(/?)([a-z]+)((?: [a-zA-Z0-9-]+=\"[^\"<]*\")*)(/?)>"), entity("^&(amp|lt|gt|quot);");
  std::vector<std::string> open;
  for (std::size_t i = 0; i < svg.size(); ++i) {
    std::smatch match;
    const auto from = svg.begin() + static_cast<std::ptrdiff_t>(i);
    if (svg[i] == '&') {
      const std::string rest = svg.substr(i, 6);
      CAPTURE(rest);
      CHECK(std::regex_search(rest, entity));
    }
    if (svg[i] != '<') continue;
    REQUIRE(std::regex_search(from, svg.end(), match, tag, std::regex_constants::match_continuous));
    if (match[1] == "/") {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == match[2]);
      open.pop_back();
    } else if (match[4] != "/") {
      open.push_back(match[2]);
    }
  }
  CHECK(open.empty());
}

/// Counts the rectangles of a picture, and checks that none leaves the canvas.
inline std::size_t rectangles_within(const std::string& svg) {
  std::smatch canvas;
  REQUIRE(std::regex_search(svg, canvas, std::regex("^<svg [^>]*viewBox=\"0 0 ([0-9.]+) ([0-9.]+)\"")));
  const double width = std::stod(canvas[1]), height = std::stod(canvas[2]);
  const std::regex rect("<rect x=\"([^\"]+)\" y=\"([^\"]+)\" width=\"([^\"]+)\" height=\"([^\"]+)\"");
  std::size_t count = 0;
  for (std::sregex_iterator at(svg.begin(), svg.end(), rect), none; at != none; ++at, ++count) {
    const double x = std::stod((*at)[1]), y = std::stod((*at)[2]), w = std::stod((*at)[3]), h = std::stod((*at)[4]);
    CAPTURE(at->str());
    CHECK((x >= 0 && y >= 0 && w >= 0 && h >= 0 && x + w <= width + 0.02 && y + h <= height + 0.02));
  }
  return count;
}

}  // namespace trainyard::test
