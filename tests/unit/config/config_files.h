#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/temporary_folder.h"
#include "finetune/config/load.h"
#include "finetune/core/error.h"

namespace finetune {

/// Sets an environment variable, or removes it, and puts the old state back.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    const char* old = std::getenv(name);
    had_ = old != nullptr;
    if (had_) old_ = old;
    if (value != nullptr) {
      ::setenv(name, value, 1);
    } else {
      ::unsetenv(name);
    }
  }
  ~ScopedVariable() {
    if (had_) {
      ::setenv(name_, old_.c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
  bool had_ = false;
  std::string old_;
};

/// Tests that write config files into a folder of their own, which is the working directory meanwhile.
class ConfigFileTest : public TemporaryFolderTest {
 protected:
  void SetUp() override {
    TemporaryFolderTest::SetUp();
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    TemporaryFolderTest::TearDown();
  }

  void write(const std::filesystem::path& name, const std::string& text) {
    if (name.has_parent_path()) std::filesystem::create_directories(name.parent_path());
    std::ofstream(name) << text;
  }

  /// A config that holds what a run needs, and `more`: further members of the top object, each behind its
  /// comma.
  static std::string with(const std::string& more) {
    return R"({"model": {"path": "./encoder"}, "data": {"train": "train.csv"})" + more + "}";
  }

  RunConfig load(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write("bert.json", text);
    return load_run_config("bert.json", overrides);
  }

  /// The problems of a file, a line each; none where it loads.
  std::vector<std::string> problems(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write("bert.json", text);
    return problems_of("bert.json", overrides);
  }
  static std::vector<std::string> problems_of(const std::filesystem::path& file,
                                              const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> lines;
    try {
      load_run_config(file, overrides);
    } catch (const ConfigError& error) {
      std::istringstream text(error.what());
      for (std::string line; std::getline(text, line);) lines.push_back(line);
    }
    return lines;
  }

 private:
  std::filesystem::path before_;
};

}  // namespace finetune
