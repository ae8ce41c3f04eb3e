#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

struct ChakraNode;

/// Ranks that exchange with each other; nodes of a trace name them.
struct Communicator {
  std::string name;
  std::vector<int> members;
};

class CommGroups {
 public:
  /// `dims`: sizes of the dimensions in which a trace numbers its ranks, the first one fastest, as ASTRA-sim's networks
  /// list them (npus_count); empty: not said. Throws UserError where they do not give so many ranks.
  CommGroups(int ranks, std::vector<int> dims);

  /// ASTRA-sim's file of communicators: {"1": [0, 1, 2, 3], "2": [4, 5, 6, 7]}. Throws UserError with the place.
  void read(const std::filesystem::path&);
  /// The process groups that a metadata node of PyTorch's converter lists; nothing of other metadata.
  void read(const ChakraNode& metadata, const std::string& file);

  /// The communicator of a collective of that rank, as a number. Without a name (or as "0", where no such group is known)
  /// all ranks. Throws UserError for one that is not known, or that the rank is not in.
  int of(int rank, const ChakraNode&, const std::string& file);
  const std::vector<Communicator>& all() const { return communicators_; }

 private:
  int ranks_;
  std::vector<int> dims_;
  std::map<std::string, std::vector<int>> named_;
  std::vector<Communicator> communicators_;
  std::map<std::pair<std::string, std::vector<int>>, int> numbers_;

  void add(const std::string& name, std::vector<int> members, const std::string& where);
  std::vector<int> along_dims(int rank, const ChakraNode&, const std::string& where) const;
  int number(const std::string& name, std::vector<int> members);
};

}  // namespace trainyard
