#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

/// A share of the parts of a study: every `of`-th, from the `index`-th on (from 1).
struct StudyShard {
  std::size_t index = 1, of = 1;
  bool has(std::size_t part) const { return part % of == index - 1; }
  bool whole() const { return of == 1; }
};
/// "3/8". Throws UserError.
StudyShard parse_study_shard(const std::string& text);
constexpr std::size_t kMostShards = 100000;

/// Puts a line before those of a journal that tells of which command it is the whole share: a verb, and its words without
/// where its answer goes. Throws UserError where it cannot be written.
void finish_journal(const std::filesystem::path&, const std::vector<std::string>& command, const StudyShard&);

/// The same command once more with these lines in its journal gives the answer of one process.
struct MergedJournals {
  std::vector<std::string> command;
  std::string lines;
};
/// Nothing where the first file has no such line. Throws UserError for files of different commands or versions, those that
/// are not finished, and shares that are missing.
std::optional<MergedJournals> merge_journals(const std::vector<std::string>& files);

}  // namespace trainyard
