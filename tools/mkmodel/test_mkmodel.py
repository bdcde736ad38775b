#!/usr/bin/env python3
"""The writer against known values, against mlx, and against the libraries that read its files."""

import os
import sys
import tempfile
import unittest
from dataclasses import replace

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "..", "..", "tests", "golden")
sys.path[:0] = [HERE, os.path.join(HERE, "..", "reference")]

import mlx.core as mx  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

from affine import BITS, GROUPS, pack, quantise  # noqa: E402
from checkpoint import Checkpoint, unpack  # noqa: E402
from floats import bf16_bits  # noqa: E402
from mkmodel import with_changes, write_model  # noqa: E402
from presets import PRESETS  # noqa: E402
from side_files import tokenizer, write_json  # noqa: E402
from spec import Spec  # noqa: E402

# bits: bf16 scale, packed words of known_group()
KNOWN = {
    2: (0xBF98, "B1B16C6F 5B1AD6C6"),
    3: (0xBF18, "4173152F CA13B8A9 2E609DC5"),
    4: (0xBE87, "7AD158BF AE259C03 E269C047 369D148B"),
    5: (0xBE00, "7835471F B9640775 050FB748 17F1593D 3369B126"),
    6: (0xBD79, "46563C7F 300E76BE B7C21797 67D4241F 286FF8A6 31BA7711"),
    8: (0xBC79, "528CC5FF 73ACE619 94CD0039 B5EE215A D508427B F629639C 104A83BD 316BA4DE"),
}


def known_group():
    return ((7 * np.arange(32) % 32 - 12) / 8).astype(np.float32)


class Affine(unittest.TestCase):
    def test_known_group_packs_to_known_words(self):
        w = known_group()
        for bits, (scale, words) in KNOWN.items():
            codes, s, b = quantise(w, bits, 32)
            self.assertEqual(" ".join(f"{x:08X}" for x in pack(codes, bits)), words, f"{bits} bits")
            self.assertEqual(bf16_bits(s)[0], scale, f"{bits} bits")
            self.assertEqual(bf16_bits(b)[0], 0x4018)

    def test_negated_group_keeps_codes_and_turns_signs(self):
        codes, s, b = quantise(known_group(), 4, 32)
        negated, ns, nb = quantise(-known_group(), 4, 32)
        np.testing.assert_array_equal(codes, negated)
        np.testing.assert_allclose((ns, nb), (-s, -b))

    def test_zero_group(self):
        codes, s, b = quantise(np.zeros(64, np.float32), 4, 64)
        self.assertEqual((codes.max(), b[0]), (0, 0))
        self.assertAlmostEqual(s[0], -1e-7, delta=1e-13)

    def test_equals_mlx_in_every_encoding(self):
        w = np.random.default_rng(5).standard_normal((9, 384)).astype(np.float32)
        for bits in BITS:
            for group in GROUPS:
                codes, s, b = quantise(w, bits, group)
                theirs = mx.quantize(mx.array(w), group_size=group, bits=bits, stream=mx.cpu)
                for ours, other in zip((pack(codes, bits), s, b), theirs):
                    np.testing.assert_array_equal(
                        ours, np.array(other), f"{bits} bits, group {group}"
                    )
                np.testing.assert_array_equal(unpack(pack(codes, bits), bits), codes)


class Folder(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.folder = self.temp.name

    def test_odd_start_is_odd_and_readable(self):
        write_model(self.folder, PRESETS["moe-odd"])
        shards = [f for f in os.listdir(self.folder) if f.endswith(".safetensors")]
        self.assertEqual(len(shards), 3)
        for f in shards:
            path = os.path.join(self.folder, f)
            with open(path, "rb") as shard:
                self.assertEqual(int.from_bytes(shard.read(8), "little") % 2, 1)
            self.assertTrue(mx.load(path))

    def test_writing_again_leaves_no_old_shards(self):
        write_model(self.folder, PRESETS["moe-odd"])
        write_model(self.folder, PRESETS["moe-q3g32"])
        models = [f for f in os.listdir(self.folder) if f.startswith("model")]
        self.assertEqual(models, ["model.safetensors"])

    def test_library_reads_the_same_values(self):
        write_model(self.folder, PRESETS["moe-experts-f32"])
        theirs = load_file(os.path.join(self.folder, "model.safetensors"))
        ck = Checkpoint(self.folder)
        for name, value in theirs.items():
            np.testing.assert_array_equal(ck.where[name].read(name)[1], value)

    def test_layouts_hold_the_same_model(self):
        base = replace(PRESETS["moe-hf-bf16"], float_dtype="F32")
        read = {}
        for layout in ("mlx", "hf", "per-expert"):
            folder = os.path.join(self.folder, layout)
            write_model(folder, replace(base, layout=layout))
            ck = Checkpoint(folder)
            read[layout] = [*ck.experts(1), ck.conv(0), ck.linear("lm_head"), ck.norm("norm")]
        for layout in ("hf", "per-expert"):
            for a, b in zip(read["mlx"], read[layout]):
                np.testing.assert_allclose(a, b, atol=1e-7)

    def test_seed_decides_everything(self):
        for sub in "ab":
            write_model(os.path.join(self.folder, sub), PRESETS["dense-q4g64"])
        a, b = (Checkpoint(os.path.join(self.folder, sub)).linear("embed_tokens") for sub in "ab")
        np.testing.assert_array_equal(a, b)

    def test_recorded_models_are_what_the_presets_make(self):
        for name in PRESETS:
            folder = os.path.join(self.folder, name)
            write_model(folder, PRESETS[name])
            for f in os.listdir(folder):
                with open(os.path.join(folder, f), "rb") as made, open(
                    os.path.join(GOLDEN, name, f), "rb"
                ) as recorded:
                    self.assertEqual(made.read(), recorded.read(), f"{name}/{f}")

    def test_tokenizer_loads_and_round_trips(self):
        tok, end_of_text = tokenizer()
        self.assertEqual(end_of_text, 280)
        write_json(self.folder, "tokenizer.json", tok, indent=None)
        library = Tokenizer.from_file(os.path.join(self.folder, "tokenizer.json"))
        text = "<|im_start|>the end, it's 42 \u0928\u092e\u0938\u094d\u0924\u0947\n"
        ids = library.encode(text).ids
        self.assertEqual(ids[0], 281)
        self.assertEqual(library.decode(ids, skip_special_tokens=False), text)


class Settings(unittest.TestCase):
    def test_bad_settings_are_refused(self):
        for bad in (
            dict(bits=7),
            dict(group=48),
            dict(scale_dtype="F64"),
            dict(value_heads=3),
            dict(ffn=8),
        ):
            with self.assertRaises(ValueError, msg=str(bad)):
                Spec(**bad)
        with self.assertRaises(SystemExit):
            with_changes(Spec(), ["overrides=x"])


if __name__ == "__main__":
    unittest.main()
