#!/usr/bin/env python3
"""The checkers find what is planted, and nothing in a clean tree."""

import pathlib
import tempfile
import unittest

import check_host_reads
import check_layers

CLEAN = {
    "include/finetune/core/error.h": "#pragma once\n#include <string>\n",
    "include/finetune/train/run.h": '#pragma once\n#include "finetune/core/error.h"\n',
    "src/core/error.cpp": '#include "finetune/core/error.h"\n',
    "src/train/run.cpp": '#include "finetune/train/run.h"\n#include <ATen/ATen.h>\n#include "loop.h"\n',
    "src/train/loop.h": '#include "finetune/model/encoder.h"\n// x.item<float>() in a comment is no read\n',
    "include/finetune/model/encoder.h": "#pragma once\n",
    "src/model/encoder.cpp": '#include "finetune/model/encoder.h"\nconst char* text = "x.cpu()";\n',
    "src/kernels/cuda/gather.cu": "#include <cuda_runtime.h>\n",
}


class Planted(unittest.TestCase):
    def tree(self, extra):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in {**CLEAN, **extra}.items():
            path = pathlib.Path(folder.name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder.name

    def layer_breaches(self, extra):
        return list(check_layers.breaches(self.tree(extra)))

    def reads(self, extra, allowed=None):
        return list(check_host_reads.breaches(self.tree(extra), allowed or {}))

    def assert_one(self, found, *words):
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_clean_tree_has_no_breach(self):
        self.assertEqual(self.layer_breaches({}), [])
        self.assertEqual(self.reads({}), [])

    def test_include_of_a_later_layer(self):
        found = self.layer_breaches({"src/model/bad.cpp": '\n#include "finetune/train/run.h"\n'})
        self.assert_one(found, "src/model/bad.cpp:2", "train")

    def test_later_layer_by_a_path_below_src(self):
        found = self.layer_breaches({"src/model/bad.cpp": '#include "train/loop.h"\n'})
        self.assert_one(found, "src/model/bad.cpp:1", "train")

    def test_climbing_into_another_layer(self):
        own = {"src/train/sub/good.cpp": '#include "../loop.h"\n'}
        self.assertEqual(self.layer_breaches(own), [])
        found = self.layer_breaches({"src/train/bad.cpp": '#include "../model/part.h"\n', "src/model/part.h": ""})
        self.assert_one(found, "src/train/bad.cpp:1", "climbs")

    def test_public_header_of_a_later_layer(self):
        found = self.layer_breaches({"include/finetune/model/bad.h": '#include "finetune/train/run.h"\n'})
        self.assert_one(found, "include/finetune/model/bad.h:1")

    def test_torch_in_each_layer_that_builds_without_it(self):
        for layer in ("core", "config", "tokenizer", "data"):
            for header in ("torch/torch.h", "ATen/ATen.h", "c10/core/Device.h"):
                found = self.layer_breaches({f"src/{layer}/bad.cpp": f"#include <{header}>\n"})
                self.assert_one(found, f"src/{layer}/bad.cpp:1", header)

    def test_cuda_outside_the_plugin(self):
        for header in ("cuda_runtime.h", "c10/cuda/CUDAStream.h"):
            found = self.layer_breaches({"src/train/bad.cpp": f"#include <{header}>\n"})
            self.assert_one(found, "src/train/bad.cpp:1", header)

    def test_checkpoint_knows_no_model(self):
        found = self.layer_breaches({"src/checkpoint/bad.cpp": '#include "finetune/model/encoder.h"\n'})
        self.assert_one(found, "src/checkpoint/bad.cpp:1", "model")

    def test_folder_that_is_no_layer(self):
        self.assert_one(self.layer_breaches({"src/utils/bad.cpp": ""}), "src/utils/bad.cpp", "no layer")
        found = self.layer_breaches({"src/train/bad.cpp": '#include "finetune/utils/x.h"\n'})
        self.assert_one(found, "src/train/bad.cpp:1", "utils")

    def test_header_that_mirrors_nothing(self):
        found = self.layer_breaches({"include/finetune/data/rows.h": ""})
        self.assert_one(found, "include/finetune/data/rows.h", "src/data")

    def test_each_kind_of_host_read(self):
        self.assertEqual(self.reads({"src/kernels/cpu/adam.cpp": "x.item<float>();\n"}), [])
        for layer in ("train", "model", "optim", "kernels", "tasks", "batching"):
            for read in ("x.item<float>()", "x.item()", "x.cpu()", "x.to(at::kCPU)", "services.synchronize(d)"):
                found = self.reads({f"src/{layer}/bad.cpp": f"// x\nauto y = {read};\n"})
                self.assert_one(found, f"src/{layer}/bad.cpp:2")

    def test_listed_file_may_read_and_a_stale_entry_is_named(self):
        extra = {"src/train/log.cpp": "x.item<float>();\n"}
        self.assertEqual(self.reads(extra, {"src/train/log.cpp": "at a log point"}), [])
        self.assert_one(self.reads({}, {"src/train/log.cpp": "at a log point"}), "src/train/log.cpp", "off the list")


if __name__ == "__main__":
    unittest.main()
