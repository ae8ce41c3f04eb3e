#include "models/reading/asked_fields.hpp"

#include <algorithm>

namespace trainyard {
namespace {

thread_local AskedFields* g_listening = nullptr;

}  // namespace

AskedFields::AskedFields() : outer_(g_listening) { g_listening = this; }
AskedFields::~AskedFields() { g_listening = outer_; }
AskedFields* AskedFields::listening() { return g_listening; }

void AskedFields::add(AskedField field) {
  const auto at = std::find_if(all_.begin(), all_.end(),
                               [&](const AskedField& f) { return f.what == field.what && f.key == field.key; });
  last_ = static_cast<std::size_t>(at - all_.begin());
  if (at == all_.end()) {
    all_.push_back(std::move(field));
    return;
  }
  if (at->words.empty()) at->words = field.words;
  if (at->condition.empty()) at->condition = field.condition;
  if (!field.type.empty()) {
    field.words = std::move(at->words);
    field.condition = std::move(at->condition);
    if (field.choices.empty()) field.choices = std::move(at->choices);
    if (!at->type.empty()) field.required &= at->required;
    *at = std::move(field);
  }
}

}  // namespace trainyard
