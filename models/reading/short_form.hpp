#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

/// Returns the scalar that an override replaced by `map`, or null if none did. After `a: 8`, the override
/// `--set a.b=c` makes `a` a map and keeps the scalar as its `base`, because most such scalars are names of the
/// catalog.
const Node* overridden_scalar(const Node& map);

/// Returns the value of a key as a map if its short form `a: 8` stands for `a: {key: 8}`, also after an override
/// replaced the short form by a map. If `key` is null, the short form has no equivalent map, and an override below it
/// replaces it. A null node becomes an empty map at `place`.
Node long_form(const Node*, const char* key, const Place& place);

}  // namespace trainyard
