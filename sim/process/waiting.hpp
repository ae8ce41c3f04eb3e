#pragma once
#include <functional>

namespace trainyard {

/// What this process does every half second while it waits for its children, such as telling how far it is; empty: nothing.
/// Children do not do it.
void do_while_waiting(std::function<void()>);
/// Does it. False where there is nothing to do.
bool waiting_work();

}  // namespace trainyard
