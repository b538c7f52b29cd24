#include <ATen/Version.h>
#include <ATen/core/Tensor.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <filesystem>
#include <regex>
#include <sstream>

#include "finetune/core/file.h"
#include "machine.h"

namespace finetune::doctor {
namespace {

namespace fs = std::filesystem;

/// The folder of LibTorch: the parent of the one its libraries were loaded from.
fs::path libtorch_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&at::show_config), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code error;
  const fs::path real = fs::canonical(info.dli_fname, error);
  return error ? fs::path() : real.parent_path().parent_path();
}

std::string read_if_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? read_file(path) : "";
}

/// The CUDA version of the build: wheels say it in version.py, the zip in build-version ("2.11.0+cu130").
std::string built_with_cuda(const fs::path& folder) {
  const std::string version_py = read_if_there(folder / "version.py");
  if (!version_py.empty()) return parse_torch_cuda(version_py);
  std::smatch match;
  const std::string build = read_if_there(folder / "build-version");
  const std::regex tag(R"(\+cu(\d+)(\d))");
  return std::regex_search(build, match, tag) ? match[1].str() + "." + match[2].str() : "";
}

/// The version in the name of a Python package's record beside LibTorch:
/// "nvidia_cudnn_cu13-9.19.0.56.dist-info".
std::string package_version(const fs::path& packages, const std::string& name) {
  std::error_code error;
  const std::regex pattern(name + R"((?:_cu\d+)?-([\d.]+)\.dist-info)");
  for (const auto& entry : fs::directory_iterator(packages, error)) {
    std::smatch match;
    const std::string file = entry.path().filename().string();
    if (std::regex_match(file, match, pattern)) return match[1].str();
  }
  return "";
}

}  // namespace

std::string parse_torch_cuda(const std::string& version_py) {
  std::smatch match;
  const std::regex line(R"((?:^|\n)cuda[^=\n]*=\s*'([\d.]+)')");
  return std::regex_search(version_py, match, line) ? match[1].str() : "";
}

std::vector<std::string> parse_architectures(const std::string& show_config) {
  const std::regex code(R"(code=((?:sm|compute)_\d+))");
  std::vector<std::string> found;
  for (std::sregex_iterator match(show_config.begin(), show_config.end(), code), end; match != end; ++match) {
    found.push_back((*match)[1].str());
  }
  return found;
}

LibTorchFacts read_libtorch_facts(bool cuda_loaded) {
  LibTorchFacts facts;
  const fs::path folder = libtorch_folder();
  facts.version = TORCH_VERSION;
  facts.folder = folder.string();
  facts.cuda = built_with_cuda(folder);
  std::error_code error;
  facts.cuda_library = fs::exists(folder / "lib" / "libtorch_cuda.so", error);
  const fs::path packages = folder.parent_path();
  facts.cudart = package_version(packages, "nvidia_cuda_runtime");
  facts.cudnn = package_version(packages, "nvidia_cudnn");
  facts.nccl = package_version(packages, "nvidia_nccl");
  // Asked before its CUDA part is there, LibTorch would decide for good that there is none.
  if (cuda_loaded) facts.architectures = parse_architectures(at::show_config());
  return facts;
}

std::vector<StrayLibrary> find_stray_libraries(const std::string& library_path,
                                               const std::string& own_folder) {
  std::vector<StrayLibrary> found;
  std::istringstream folders(library_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    const fs::path path(folder.empty() ? "." : folder);
    if (!own_folder.empty() && fs::equivalent(path, own_folder, error)) continue;
    for (const auto& entry : fs::directory_iterator(path, error)) {
      const std::string name = entry.path().filename().string();
      const bool is_runtime = name.rfind("libcudart.so.", 0) == 0 && name.find('.', 13) == std::string::npos;
      if (name == "libcuda.so.1" || is_runtime) found.push_back({name, entry.path().string()});
    }
  }
  return found;
}

}  // namespace finetune::doctor
