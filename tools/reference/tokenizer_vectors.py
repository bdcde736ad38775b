"""Token ids from the Hugging Face tokenizers package: test vectors, and a live comparison.

    pip install tokenizers unicodedata2==16.0.0
    python tools/reference/tokenizer_vectors.py > tests/data/tokenizer_vectors.txt
    python tools/reference/tokenizer_vectors.py --utf8 > tests/data/utf8_replace.txt
    python tools/reference/tokenizer_vectors.py --fuzz 100000 --dump build/tests/tok_dump

The first writes the vectors that tests/unit/text/test_vectors.c reads: for each text a line of
hexadecimal bytes and a line of ids, by models/demo-moe/tokenizer.json. The second writes byte
strings, and what Python's errors="replace" makes of each, for tests/unit/text/test_detok.c. The
third compares N random texts, and some megabytes of source files and of mixed text, with the ids
that tok_dump prints; --tokenizer takes another tokenizer.json and --seed another sequence.

Characters that joined Unicode after version 9 and combine are left out: the package normalises by
Unicode 9 and leaves them alone.
"""

import argparse
import pathlib
import random
import subprocess
import sys

import unicodedata2 as ucd
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parents[2]

TEXTS = [
    "",
    "Hello world, it's 2024!",
    "  two  spaces\n\n\nx",
    "a\t b  \n",
    "I'LL don't WE'VE they're I'm he'd 'S 'T x'\u017f y'\u017fab '\u212a 'll've",
    "if (x==1) {\n    return;\n}\n",
    "...\n\nfoo",
    "नमस्ते दुनिया",
    "Příliš žluťoučký kůň úpěl ďábelské ódy",
    "Добрый день, как дела? Всё хорошо.",
    "Χαίρετε, τι κάνετε;",
    "你好，世界！今天天气很好。我们去公园吧？",
    "吾輩は猫である。名前はまだ無い。カタカナ、ひらがな、ｶﾀｶﾅ",
    "안녕하세요 세계",
    "مَرْحَبًا بِالعَالَم كيف الحال؟",
    "שָׁלוֹם עוֹלָם",
    "สวัสดีชาวโลก",
    "வணக்கம் உலகம்",
    "নমস্কার বিশ্ব",
    "Xin chào thế giới, tôi yêu tiếng Việt",
    "😀 😃👍🏽 👨‍👩‍👧‍👦 🇫🇷🇩🇪 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ 1️⃣",
    "e\u0301 E\u0301\u0327 A\u030a \u212b \u2126 \u1e9b\u0323 q\u0307\u0323 q\u0323\u0307",
    "a" + "\u0301\u0323" * 40 + "b" + "\u0323\u0301" * 7,
    "\u1112\u1161\u11ab \u1100\u1161\u11a8 \uac00\u11a8 \u1161\u11a8 \uac01\u11a8",
    "\u0958 \u0340\u0341 \u0344 \u0374 \u037e \u0387 \u2000\u2001 \uf900 \ufb1d \U0002f800",
    "\u09c7\u09be \u09c7\u09d7 \u0b47\u0b56 \u0dd9\u0dcf\u0dca \u0cc6\u0cc2\u0cd5",
    "\u0301leading mark, \u0301 \u0308\n\u0308",
    "ﬁ ﬀ Ａ１ ² ³ ½ Ⅷ ① ٣ ४",
    "١٢٣ 12345 1,234.56 0x1F 1e-9 3.14159",
    "tab\there\r\nwindows\r\n\r\nend \r \n mixed \n  \t\n x",
    "\u00a0nbsp\u00a0\u00a0x \u3000ideographic\u3000\u3000 \u2028line\u2028\u2029para \u0085next\u0085 \u180e \u200b \ufeff",
    "trailing spaces   ",
    "   ",
    "\n",
    "\n\n \n",
    " \u00a0\n\u00a0 x",
    "\x01\x02\x1b[31mred\x7f",
    "def f(x: int) -> str:\n    '''doc'''\n    return f\"{x!r:>10}\" # ok\n\n\nclass A: pass\n",
    "for (int i = 0; i < n; ++i) { a[i] += b[i] * c->d; } /* done */",
    "SELECT * FROM t WHERE a='b' AND c<>\"d\";--",
    "{\"a\": [1, 2.5, null, true], \"b\": {\"c\": \"\\u00e9\"}}",
    "https://example.org/path?q=1&r=%20#frag user@example.com",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "abababababababababababababababababababababababababababababababababab",
    "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "<|im_start|><|im_end|><|endoftext|>x<think>y</think> <tool_call></tool_call>",
    "<|im_start|<|im_start|>|im_end|> <|im_star <think <thin<think>",
    "e\u0301<|im_end|>\u0301 x <|im_end|>  <|im_start|>  y",
    "<tool_response> \u0301</tool_response>",
    "'s<think>'s 't<think> 't",
]

# Ranges that random texts draw from; the first few are drawn more often.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x61, 0x7A), (0x61, 0x7A), (0x09, 0x0D), (0xA0, 0x17F), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x4FF), (0x590, 0x5FF), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0xDFF),
    (0xE00, 0xFFF), (0x1000, 0x11FF), (0x1AB0, 0x1AFF), (0x1D00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF),
    (0x3000, 0x30FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xF900, 0xFB4F), (0xFE00, 0xFFFF),
    (0x10000, 0x10FFF), (0x11000, 0x11FFF), (0x1D100, 0x1D7FF), (0x1F300, 0x1FAFF), (0x2F800, 0x2FA1D),
    (0x20000, 0x2A6DF), (0x80, 0xD7FF), (0xE000, 0x10FFFF),
]
SNIPPETS = ["'s", "'T", "'re", "'VE", "'ll", "'\u017f", " ", "  ", "   ", "\n", "\r\n", "\n\n", "\t", "\u00a0", "\u3000",
            "e\u0301", "a\u0323\u0302", "\u1100\u1161\u11a8", "<|im_start|>", "<|im_end|>", "<think>", "</think>",
            "<|", "|>", "the", " and", "ing", "123", "...", "👩‍💻", "\u212b", "क्षि"]


def young():
    """Characters unknown to Unicode 9 that normalisation would move or change."""
    from tokenizers import normalizers

    nfc = normalizers.NFC()
    return {c for c in range(0x300, 0x110000) if not 0xD800 <= c < 0xE000
            and any(nfc.normalize_str(s) != ucd.normalize("NFC", s)
                    for s in ("a" + chr(c) + "\u0334", "a\u0345" + chr(c) + "\u0334"))}


def random_text(rng, banned):
    parts = []
    for _ in range(rng.choice((1, 2, 3, 5, 8, 20, 60))):
        if rng.random() < 0.3:
            parts.append(rng.choice(SNIPPETS))
            continue
        low, high = rng.choice(RANGES)
        for _ in range(rng.choice((1, 1, 2, 4, 12))):
            c = rng.randint(low, high)
            if c and not 0xD800 <= c < 0xE000 and c not in banned:
                parts.append(chr(c))
    return "".join(parts)


def write_vectors(tokenizer):
    rng = random.Random(2024)
    banned = young()
    print("# Written by tools/reference/tokenizer_vectors.py from models/demo-moe/tokenizer.json.")
    for text in TEXTS + [random_text(rng, banned) for _ in range(400)]:
        print(text.encode().hex())
        print(*tokenizer.encode(text, add_special_tokens=False).ids)


def write_utf8():
    rng = random.Random(2024)
    edges = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x98, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xC3, 0xDF, 0xE0, 0xE1,
             0xE2, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]
    print("# Written by tools/reference/tokenizer_vectors.py --utf8.")
    texts = [bytes(rng.choice(edges) for _ in range(rng.randint(1, 12))) for _ in range(1500)]
    for _ in range(500):  # whole characters, cut and joined
        data = "".join(rng.choice("aé€\uffff😀\U0010ffff") for _ in range(8)).encode()
        cut = rng.randrange(len(data))
        texts.append(data[:cut] + data[rng.randrange(len(data)):])
    for data in texts:
        print(data.hex())
        print(data.decode("utf-8", "replace").encode().hex())


def mixed_text(rng, banned):
    """Pieces of the repository's own files, and of random text, in chunks of a few KiB."""
    files = [p for p in ROOT.rglob("*") if p.suffix in {".c", ".h", ".py", ".md", ".json"}
             and ".git" not in p.parts and "build" not in p.parts and p.stat().st_size < 1 << 20]
    texts = [p.read_bytes().decode("utf-8", "replace").replace("\0", "") for p in sorted(files)]
    for text in texts:
        yield from (text[i : i + 8192] for i in range(0, len(text), 8192))
    for _ in range(300):
        yield "".join(random_text(rng, banned) for _ in range(100))


def compare(tokenizer, args, texts):
    done = subprocess.run([args.dump, args.tokenizer], input=b"".join(t.encode() + b"\0" for t in texts),
                          stdout=subprocess.PIPE, check=True)
    lines = done.stdout.decode().split("\n")[:-1]
    assert len(lines) == len(texts), (len(lines), len(texts))
    wrong = 0
    for text, line in zip(texts, lines):
        want = tokenizer.encode(text, add_special_tokens=False).ids
        got = [int(i) for i in line.split()]
        if want != got:
            wrong += 1
            if wrong <= 5:
                at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
                print(f"differs at id {at}: {text[:300]!r}\n  want {want[at : at + 8]}\n  got  {got[at : at + 8]}")
    return wrong


def fuzz(tokenizer, args):
    rng = random.Random(args.seed)
    banned = young()

    def batches():
        yield TEXTS + list(mixed_text(rng, banned))
        for left in range(args.fuzz, 0, -5000):
            yield [random_text(rng, banned) for _ in range(min(5000, left))]

    wrong = count = size = 0
    for texts in batches():
        count += len(texts)
        size += sum(len(t.encode()) for t in texts)
        wrong += compare(tokenizer, args, texts)
    print(f"{count} texts, {size} bytes, {wrong} differ")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--utf8", action="store_true")
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--dump", default=str(ROOT / "build/tests/tok_dump"))
    parser.add_argument("--tokenizer", default=str(ROOT / "models/demo-moe/tokenizer.json"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.utf8:
        return write_utf8()
    tokenizer = Tokenizer.from_file(args.tokenizer)
    if args.fuzz is None:
        return write_vectors(tokenizer)
    return fuzz(tokenizer, args) != 0


sys.exit(main())
