#pragma once
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "scenarios/src/answer/json_fields.hpp"

namespace trainyard::test {

/// Checks that an answer has a value for every key that the reference of the verb explains. `except`: the begin of keys
/// that another test checks.
inline void check_explained_keys(const nlohmann::ordered_json& answer, const std::string& verb,
                                 const std::string& except = "") {
  for (const FieldRow& row : json_references().find(verb, {}).rows()) {
    CAPTURE(row.path);
    if (!except.empty() && row.path.starts_with(except)) continue;
    const nlohmann::ordered_json* value = &answer;
    std::istringstream path(row.path);
    for (std::string key; std::getline(path, key, '.');) {
      const bool is_item = key.ends_with("[]");
      if (is_item) key.resize(key.size() - 2);
      REQUIRE(value->contains(key));
      value = &value->at(key);
      if (is_item) {
        REQUIRE_FALSE(value->empty());
        value = &value->front();
      }
    }
    CHECK_FALSE(value->is_null());
  }
}

}  // namespace trainyard::test
