#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <random>

#include "checkpoint/pickle.h"
#include "finetune/checkpoint/python_checkpoint.h"
#include "finetune/core/error.h"
#include "finetune/core/file.h"
#include "support.h"

namespace finetune {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kCase =
    std::filesystem::path(FINETUNE_TEST_DATA) / "cases" / "25-optimizer-state-variants";

using HostileFiles = testing::FolderTest;

/// Checkpoints with an optimizer, damaged: read, with tensors that can be read, or refused by name.
TEST_F(HostileFiles, DamagedOptimizerStateIsReadOrRefused) {
  std::mt19937 random(11);
  int refused = 0;
  for (const char* name : {"plain.pth", "groups-reversed-with-names.pth", "step-int.pth"}) {
    const std::string good = read_file(kCase / name);
    const size_t pickle = good.find("data.pkl"), pickle_end = good.find("PK\x03\x04", pickle);
    for (int i = 0; i < 200; ++i) {
      std::string bad = good;
      // Half of the damage goes where the meaning is.
      for (int flips = 1 + i % 3; flips > 0; --flips) {
        const size_t at = i % 2 == 0 ? random() % bad.size() : pickle + random() % (pickle_end - pickle);
        bad[at] ^= static_cast<char>(1 << random() % 8);
      }
      testing::write_bytes(folder_ / "bad.pth", bad);
      try {
        const PythonCheckpoint checkpoint = read_python_checkpoint(folder_ / "bad.pth");
        for (const auto& [unused, tensor] : checkpoint.weights) tensor.to(at::kDouble).sum();
        if (!checkpoint.optimizer) continue;
        for (const auto& [unused, moments] : checkpoint.optimizer->moments) moments.exp_avg.sum();
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(), HasSubstr("bad.pth"));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100);
}

/// Programs of random opcodes: whatever they ask for, they are values or a refusal that says where.
TEST_F(HostileFiles, RandomPicklesAreReadOrRefused) {
  const std::vector<std::string> pieces{"(",
                                        ")",
                                        "]",
                                        "}",
                                        "t",
                                        "a",
                                        "e",
                                        "s",
                                        "u",
                                        "0",
                                        "1",
                                        "2",
                                        "R",
                                        "b",
                                        "Q",
                                        "N",
                                        "\x85",
                                        "\x86",
                                        "\x87",
                                        "\x81",
                                        "\x92",
                                        "\x93",
                                        "\x94",
                                        "K\x01",
                                        "K\x07",
                                        std::string("J\xff\xff\xff\xff", 5),
                                        "h" + std::string(1, '\0'),
                                        "q" + std::string(1, '\0'),
                                        "j\xff\xff\xff\x7f",
                                        "X\x01" + std::string(3, '\0') + "k",
                                        "X\x07" + std::string(3, '\0') + "storage",
                                        "ctorch._utils\n_rebuild_tensor_v2\n",
                                        "ctorch\nFloatStorage\n",
                                        "ccollections\nOrderedDict\n",
                                        "ctorch._utils\n_rebuild_parameter\n",
                                        "cos\nsystem\n",
                                        "ctorch\nSize\n",
                                        std::string("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10),
                                        "\x8d" + std::string(8, '\xff'),
                                        "\x88"};
  std::mt19937 random(13);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string program("\x80\x02", 2);
    for (auto length = random() % 40; length > 0; --length) program += pieces[random() % pieces.size()];
    program += '.';
    try {
      const Pickle pickle(program, "random.pkl");
      EXPECT_LE(pickle.size(), program.size());
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(), HasSubstr("random.pkl"));
      EXPECT_THAT(error.what(), HasSubstr("(byte "));
      ++refused;
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace finetune
