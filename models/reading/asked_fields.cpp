#include "models/reading/asked_fields.hpp"

#include <algorithm>

namespace trainyard {
namespace {

thread_local AskedFields* g_innermost = nullptr;

}  // namespace

AskedFields::AskedFields() : outer_(g_innermost) { g_innermost = this; }
AskedFields::~AskedFields() { g_innermost = outer_; }
AskedFields* AskedFields::innermost() { return g_innermost; }

void AskedFields::add(AskedField field) {
  const auto earlier =
      std::ranges::find_if(all_, [&](const AskedField& f) { return f.what == field.what && f.key == field.key; });
  last_ = static_cast<std::size_t>(earlier - all_.begin());
  if (earlier == all_.end()) {
    all_.push_back(std::move(field));
    return;
  }
  if (earlier->words.empty()) earlier->words = field.words;
  if (earlier->condition.empty()) earlier->condition = field.condition;
  if (!field.type.empty()) {
    field.words = std::move(earlier->words);
    field.condition = std::move(earlier->condition);
    if (field.choices.empty()) field.choices = std::move(earlier->choices);
    if (!earlier->type.empty()) field.required &= earlier->required;
    *earlier = std::move(field);
  }
}

}  // namespace trainyard
