#pragma once
#include <memory>
#include <string>
#include <utility>

#include "models/reading/document.hpp"

namespace trainyard::test {

/// A place for nodes without a document. Errors name it.
inline Place nowhere(std::string name = "test") {
  Place place;
  place.file = std::make_shared<const std::string>(std::move(name));
  return place;
}

}  // namespace trainyard::test
