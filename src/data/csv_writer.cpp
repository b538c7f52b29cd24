#include "finetune/data/csv_writer.h"

namespace finetune {
namespace {

bool needs_quotes(std::string_view field, char delimiter) {
  // A mark at the start of a file would be taken as the file's own.
  if (field.starts_with("\xEF\xBB\xBF")) return true;
  const char special[] = {delimiter, '"', '\n', '\r'};
  return field.find_first_of(std::string_view(special, sizeof(special))) != std::string_view::npos;
}

}  // namespace

void append_csv_record(std::string& out, const std::vector<std::string_view>& fields, char delimiter) {
  // A record of one empty field would be an empty line, which readers skip.
  const bool empty_line = fields.size() == 1 && fields[0].empty();
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += delimiter;
    if (!empty_line && !needs_quotes(fields[i], delimiter)) {
      out += fields[i];
      continue;
    }
    out += '"';
    for (const char byte : fields[i]) {
      if (byte == '"') out += '"';
      out += byte;
    }
    out += '"';
  }
  out += '\n';
}

}  // namespace finetune
