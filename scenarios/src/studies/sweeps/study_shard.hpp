#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

/// A share of the parts of a study: every `count`-th part, beginning with part number `index` (from 1).
struct StudyShard {
  std::size_t index = 1, count = 1;
  bool has(std::size_t part) const { return part % count == index - 1; }
  bool is_whole() const { return count == 1; }
};
/// Parses "3/8" (shard 3 of 8). Throws UserError.
StudyShard parse_study_shard(const std::string& text);
constexpr std::size_t kMostShards = 100000;

/// Adds a first line to a journal that marks it as the complete shard of a command. The command is a verb and its
/// arguments without those that name output files. Throws UserError if the file cannot be written.
void finish_journal(const std::filesystem::path&, const std::vector<std::string>& command, const StudyShard&);

/// The lines of all shards of a command. The command with these lines as its journal gives the answer of a single
/// process.
struct MergedJournals {
  std::vector<std::string> command;
  std::string lines;
};
/// Merges the journals of all shards. No value: the first file is not marked as complete. Throws UserError for files of
/// different commands or versions, unfinished files, and missing shards.
std::optional<MergedJournals> merge_journals(const std::vector<std::string>& files);

}  // namespace trainyard
