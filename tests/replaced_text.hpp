#pragma once
#include <catch2/catch.hpp>
#include <string>

namespace trainyard::test {

/// Replaces the first occurrence of `from`, which the text must have.
inline std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  CAPTURE(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace trainyard::test
