#include "foreign_format.h"

#include <fstream>
#include <system_error>

#include "finetune/core/text.h"

namespace finetune {
namespace {

namespace fs = std::filesystem;

struct Converter {
  const char* name;
  const char* packages;
  const char* imports;
  const char* table;  ///< an expression: the file sys.argv[1] as a pandas table
  const char* extension;
};

// Lists and numbers survive in JSONL; a spreadsheet has neither, and its users expect CSV.
constexpr const char* kToJsonl = ".to_json(sys.argv[2], orient='records', lines=True, force_ascii=False)";
constexpr const char* kToCsv = ".to_csv(sys.argv[2], index=False)";

Converter converter(ForeignFormat format) {
  switch (format) {
    case ForeignFormat::kParquet:
      return {"a Parquet file", "pandas pyarrow", "pandas", "pandas.read_parquet(sys.argv[1])", ".jsonl"};
    case ForeignFormat::kArrowFile:
      return {"an Arrow file", "pandas pyarrow", "pandas", "pandas.read_feather(sys.argv[1])", ".jsonl"};
    case ForeignFormat::kArrowStream:
      return {"an Arrow stream", "pandas pyarrow", "pyarrow",
              "pyarrow.ipc.open_stream(pyarrow.memory_map(sys.argv[1])).read_pandas()", ".jsonl"};
    case ForeignFormat::kDatasetFolder:
      return {"a folder that Hugging Face's datasets saved", "datasets", "datasets",
              "datasets.load_from_disk(sys.argv[1])", ".jsonl"};
    case ForeignFormat::kSpreadsheet:
      break;
  }
  return {"a spreadsheet", "pandas openpyxl", "pandas", "pandas.read_excel(sys.argv[1])", ".csv"};
}

std::string shell_quoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char byte : text) quoted += byte == '\'' ? std::string("'\\''") : std::string(1, byte);
  return quoted + "'";
}

bool begins_with(const fs::path& path, std::string_view bytes) {
  std::string start(bytes.size(), '\0');
  std::ifstream file(path, std::ios::binary);
  return file.read(start.data(), static_cast<std::streamsize>(start.size())) && start == bytes;
}

}  // namespace

std::optional<ForeignFormat> foreign_format_by_name(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / "dataset_info.json", ignored)) return ForeignFormat::kDatasetFolder;
    return std::nullopt;
  }
  const std::string extension = lower_ascii(path.extension().string());
  if (extension == ".parquet") return ForeignFormat::kParquet;
  if (extension == ".feather") return ForeignFormat::kArrowFile;
  if (extension == ".arrow" || extension == ".ipc") {
    return begins_with(path, "ARROW1") ? ForeignFormat::kArrowFile : ForeignFormat::kArrowStream;
  }
  for (const char* sheet : {".xlsx", ".xlsm", ".xls", ".ods"}) {
    if (extension == sheet) return ForeignFormat::kSpreadsheet;
  }
  return std::nullopt;
}

std::string foreign_format_message(ForeignFormat format, const fs::path& path) {
  const Converter by = converter(format);
  const bool from_stdin = path == "-";
  const std::string in = from_stdin ? "IN" : shell_quoted(path.string());
  const fs::path named = path.has_filename() ? path : path.parent_path();  // "folder/" is "folder"
  const std::string out = from_stdin ? std::string("OUT") + by.extension
                                     : shell_quoted(fs::path(named).replace_extension(by.extension).string());
  return std::string("is ") + by.name +
         ", expected text (CSV, TSV, JSONL or CoNLL); convert it: python3 -c \"import sys, " + by.imports +
         "; " + by.table + (std::string_view(by.extension) == ".csv" ? kToCsv : kToJsonl) + "\" " + in + " " +
         out + " (pip install " + by.packages + ")";
}

}  // namespace finetune
