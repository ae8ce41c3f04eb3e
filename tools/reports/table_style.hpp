#pragma once

namespace trainyard {

/// Whether tables are Markdown's (see `write_tables_as_markdown`).
bool tables_are_markdown();

}  // namespace trainyard
