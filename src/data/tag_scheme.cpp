#include "tag_scheme.h"

#include <algorithm>

#include "finetune/core/log.h"
#include "finetune/core/text.h"

namespace finetune {

int64_t rewrite_iob1(std::vector<std::string>& tags) {
  const auto is_iob = [](const std::string& tag) {
    return tag.empty() || tag == "O" || tag.starts_with("B-") || tag.starts_with("I-");
  };
  if (!std::all_of(tags.begin(), tags.end(), is_iob)) return 0;
  int64_t count = 0;
  for (size_t i = 0; i < tags.size(); ++i) {
    if (!tags[i].starts_with("I-")) continue;
    // The tag before is rewritten already, but its type is what it was.
    const bool goes_on =
        i > 0 && tags[i - 1].size() > 2 && tags[i - 1].compare(2, std::string::npos, tags[i], 2) == 0;
    if (goes_on) continue;
    tags[i][0] = 'B';
    ++count;
  }
  return count;
}

void say_rewritten_iob1(const std::filesystem::path& file, int64_t count) {
  if (count == 0) return;
  spdlog::info("{}: the tags are in IOB1; {} entities that begin with I- are given B- (IOB2)", file.string(),
               with_thousands(count));
}

}  // namespace finetune
