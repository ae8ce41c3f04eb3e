#pragma once
#include "models/reading/registry.hpp"
#include "scenarios/src/answer/json_fields.hpp"

namespace trainyard {

/// A description of the JSON that a command writes, for `trainyard help json`. The file that writes it registers it.
struct JsonReference {
  std::string command;  ///< "bench"
  std::string words;
  std::vector<FieldRow> (*rows)() = nullptr;
};
inline Registry<JsonReference>& json_references() {
  static Registry<JsonReference> registry{"command with --json"};
  return registry;
}

struct RegisterJsonReference {
  RegisterJsonReference(const char* command, const char* words, std::vector<FieldRow> (*rows)()) {
    json_references().add(command, {command, words, rows});
  }
};

}  // namespace trainyard
