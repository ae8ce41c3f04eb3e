#include "models/reading/asked_fields.hpp"

namespace trainyard {
namespace {

thread_local AskedFields* g_innermost = nullptr;

}  // namespace

AskedFields::AskedFields() : outer_(g_innermost) { g_innermost = this; }
AskedFields::~AskedFields() { g_innermost = outer_; }
AskedFields* AskedFields::innermost() { return g_innermost; }

void AskedFields::add(AskedField field) {
  const auto [place, fresh] = places_.try_emplace({field.what, field.key}, all_.size());
  last_ = place->second;
  if (fresh) {
    all_.push_back(std::move(field));
    return;
  }
  AskedField& earlier = all_[last_];
  if (earlier.words.empty()) earlier.words = field.words;
  if (earlier.condition.empty()) earlier.condition = field.condition;
  if (!field.type.empty()) {
    field.words = std::move(earlier.words);
    field.condition = std::move(earlier.condition);
    if (field.choices.empty()) field.choices = std::move(earlier.choices);
    if (!earlier.type.empty()) field.required &= earlier.required;
    earlier = std::move(field);
  }
}

}  // namespace trainyard
