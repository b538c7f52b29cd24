#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace finetune {

/// Tables that other programs write, and that are not read here.
enum class ForeignFormat { kParquet, kArrowFile, kArrowStream, kSpreadsheet, kDatasetFolder };

/// By the file's name, and for .arrow by its first bytes too; a folder by the file that `datasets` leaves in
/// it.
std::optional<ForeignFormat> foreign_format_by_name(const std::filesystem::path& path);

/// "is a Parquet file, expected ...; convert it: python3 -c ...": a command that works as it stands, for
/// `throw_data_error`.
std::string foreign_format_message(ForeignFormat format, const std::filesystem::path& path);

}  // namespace finetune
