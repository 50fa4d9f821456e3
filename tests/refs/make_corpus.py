#!/usr/bin/env python3
"""Makes tests/data/corpus.bin, the lines the tokenizer vectors are made on. Same seed, same bytes (Python 3.11, Unicode 14).

    make_corpus.py --english tests/data/english.txt --out tests/data/corpus.bin

Text comes from english.txt, from the fixed sentences below and from a seeded generator. Format: tests/data/README.md.
"""
import argparse, random, struct, unicodedata

SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>",
           "<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>", "<pad>", "<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]",
           "[UNK]", "[PAD]", "<|im_start", "im_end|>", "<repo_name>", "<file_sep>", "<0x41>", "<0xFF>", "<unused0>", "<mask>",
           "<|", "|>", "<h1>", "</h1>", "<table>", "[toxicity=0]"]
WORLD = """Съешь же ещё этих мягких французских булок, да выпей чаю.
Москва — столица России; население около 13 млн человек.
Ґанок, їжак, єдність і щастя — українські слова.
Ο γρήγορος καφέ αλεπού πηδάει πάνω από τον τεμπέλη σκύλο.
Zażółć gęślą jaźń. Pchnąć w tę łódź jeża lub ośm skrzyń fig.
Příliš žluťoučký kůň úpěl ďábelské ódy.
Falsches Üben von Xylophonmusik quält jeden größeren Zwerg. STRASSE straße ẞ
Voix ambiguë d'un cœur qui, au zéphyr, préfère les jattes de kiwis. L'été, j'ai aimé l'œuvre.
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío; ¿no? ¡Sí!
Pijamalı hasta yağız şoföre çabucak güvendi. İSTANBUL ısı IĞDIR iğde
Sæll, þú ættir að vera góður. Árvíztűrő tükörfúrógép.
Đây là một câu tiếng Việt có nhiều dấu: ước mơ, nghiêng, quyển sách.
صِف خَلقَ خَودِ كَمِثلِ الشَمسِ إِذ بَزَغَت
نص حكيم له سر قاطع وذو شأن عظيم، مكتوب على ثوب أخضر ومغلف بجلد أزرق ١٢٣٤٥
این یک متن فارسی است؛ می‌خواهم برنامه‌نویسی یاد بگیرم ۶۷۸۹
דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם עֲלֵיכֶם
ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले विष्णुवतार भगवान श्रीराम। १२३
আমার সোনার বাংলা, আমি তোমায় ভালোবাসি। ১২৩
யாமறிந்த மொழிகளிலே தமிழ்மொழி போல் இனிதாவது எங்கும் காணோம்
เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน ๑๒๓
ဘာသာပြန်ဆိုသူများ ကျေးဇူးတင်ပါတယ်
ភាសាខ្មែរ មានអក្សរច្រើន
ქართული ენა ძალიან ლამაზია
Հայերեն լեզուն շատ հին է։
ሰው ሁሉ ሲወለድ ነጻ ነው
中文分词是一个有趣的问题，北京大学生前来应聘。“你好”，他说：今天天气怎么样？１２３ＡＢＣ
繁體中文與簡體中文的區別：龍/龙、門/门、車/车。
いろはにほへと ちりぬるを。カタカナとｶﾀｶﾅ、漢字も混ざる文章です。がぎぐげご
한국어 문장은 띄어쓰기가 중요합니다. ㄱㄴㄷ 각 각 키스의 고유조건은
𠜎𠜱𠝹𠱓 𡃁 𪜈 㐀㐁 〇 々 〆
👩‍👩‍👧‍👦 👨🏿‍🚀 🏳️‍🌈 🇫🇷🇩🇪🇯🇵 ❤️ ☺︎ 1️⃣2️⃣ 🫠🫡 ©️®️™️
😀😃😄😁😆 text😅text 🤷🏽‍♀️🤦🏼‍♂️ 🧑‍💻🧑🏻‍🤝‍🧑🏿
Z̷̡̛a̶l̸g̵o̴ t̷e̶x̸t̵ e\u0301 é n\u0303 ñ A\u030a Å ö o\u0308 ṩ s\u0323\u0307 s\u0307\u0323
ﬁ ﬂ ﬀ ﬃ Ⅷ ⅷ ① ⑳ ½ ¾ x² H₂O 10³ m² Ǆ ǅ ǆ ŉ ſ K Å Ω
“Smart quotes” ‘single’ — em–dash… «guillemets» ‹x› „low“ ¿? ¡! § ¶ † ‡ • ‰ ′ ″
∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α ∧ ¬β = ¬(¬α ∨ β), ∑ᵢ₌₁ⁿ i = n(n+1)/2, ∂f/∂x ≠ ∞
₿ € £ ¥ ₹ ₽ ¢ $ 1.234,56 1'234.56 1,234,567.89 ١٬٢٣٤ 0x1F 1e-9 ½
ᚠᛇᚻ᛫ᛒᛦᚦ 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𝕏 𝐀𝐁 🅰🅱 𒀀𒁀 𓀀𓂀 𐍈𐍉
I'm you're he's it'll we've they'd can't I'M YOU'RE HE'S IT'LL WE'VE THEY'D CAN'T 'tis o'clock rock'n'roll ’s ’re
Mixed: abc中文def 123中文456 русский123text日本語 αβγabc한국어xyz
snake_case camelCase PascalCase kebab-case SCREAMING_SNAKE dotted.name path/to/file C:\\Windows\\x user@example.org #tag @me
http://example.org/a?b=c&d=%20e#f ftp://x.y/z mailto:a@b.c 192.168.0.1 ::1 2026-01-31T12:34:56Z 12:34 +1 (555) 010-9999
!!! ??? ... ,,, --- *** === ### ~~~ ``` \"\"\" ''' ((( ))) [[[ ]]] {{{ }}} <<< >>> $$$ %%% ^^^ &&& ||| ;;; ::: ///"""
CODE = r"""int main(int argc, char **argv) { return argc > 1 ? atoi(argv[1]) : 0; }
static inline uint32_t rotl(uint32_t x, int r) { return (x << r) | (x >> (32 - r)); }
for (size_t i = 0; i < n; ++i) sum += a[i] * b[i]; /* dot */
<TAB>if (p == NULL || *p != '\0') goto fail;
#define MAX(a, b) ((a) > (b) ? (a) : (b))
typedef struct { float x, y, z; } vec3; // three
printf("%-10s|%5.2f%%\n", name, 100.0 * part / total);
    def __init__(self, *args, **kwargs):
        self._cache: dict[str, list[int]] = {}
        return [x**2 for x in range(10) if x % 2 == 0]
@property
    async with session.get(f"{base}/v1/{path!r}", timeout=30) as r:
lambda x, y=3: (x + y) // 2 if x is not None else ...
fn main() -> Result<(), Box<dyn Error>> { let v: Vec<_> = (0..10).map(|x| x * x).collect(); Ok(()) }
impl<'a, T: Clone + 'static> Iterator for Foo<'a, T> {
const f = async ({a, ...rest}) => { await g?.(a ?? 0); return `${a}_${rest.b}`; };
if (a === b && !c || d !== e) { x ||= 1; y **= 2; z >>>= 3; }
SELECT u.id, COUNT(*) FROM users AS u LEFT JOIN orders o ON o.uid = u.id WHERE u.age >= 18 GROUP BY 1;
<div class="row"><a href="#top">Top &amp; more</a><br/></div>
{"key": [1, 2.5e-3, true, null, "\u00e9\n"], "nested": {"a": {}}}
find . -name '*.c' -print0 | xargs -0 grep -nE '\b(ga_[a-z_]+)\(' > "$OUT" 2>&1
git commit -m "base: fix the thing" --amend && git push --force-with-lease origin HEAD
\begin{equation} \int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2} \end{equation}
movaps xmm0, [rsi+16*rcx]    ; load
.L3:<TAB>vfmadd231ps<TAB>%zmm0, %zmm1, %zmm2
- [ ] **bold** _it_ `code` [link](url) ~~no~~ | a | b |
key: value  # comment
  - item: "quoted: yes"
[section.sub]
regex = ^(?:[a-z0-9]+(?:-[a-z0-9]+)*)$""".replace("<TAB>", "\t")
BLOCKS = [(0x20, 0x7f), (0xa0, 0x250), (0x250, 0x370), (0x370, 0x400), (0x400, 0x530), (0x590, 0x600), (0x600, 0x700),
          (0x900, 0xa00), (0xe00, 0xe80), (0x1100, 0x1200), (0x1e00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2200),
          (0x2200, 0x2800), (0x3000, 0x3100), (0x3400, 0x3500), (0x4e00, 0x9fa6), (0xac00, 0xd7a4), (0xf900, 0xfb00),
          (0xfb00, 0xfe00), (0xfe00, 0xfff0), (0x10000, 0x10400), (0x1d400, 0x1d800), (0x1f000, 0x1fb00), (0x20000, 0x20100),
          (0xe0000, 0xe0200), (0xe000, 0xe010), (0x10fff0, 0x10fffe)]
SPACES = [" ", "  ", "   ", "\t", "\n", "\r\n", "\r", "\u00a0", "\u2003", "\u3000", "\u2028", "\u200b", "\u200d", "\ufeff", "\v", "\f",
          "\u0085", "\u1680", "\u202f", "\u205f", "\u180e"]
SUFFIX = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'", "''", "\u2019s", "'x", "'\u017f"]


def generate(english, rng):
    words = english.split()
    paragraphs = [p for p in english.split("\n\n") if len(p) > 80]
    world, code = WORLD.split("\n"), CODE.split("\n")

    def prose():
        p = rng.choice(paragraphs)
        i = rng.randrange(max(1, len(p) - 60))
        return p[i:i + rng.randint(5, 100)]

    def word():
        w = rng.choice(words)
        return rng.choice([w, w, w.upper(), w.capitalize(), w + rng.choice(SUFFIX), w[:rng.randint(1, 8)]])

    def number():
        n = "".join(rng.choice("0123456789") for _ in range(rng.randint(1, 14)))
        return rng.choice([n, n, n[:3] + "." + n[3:], "-" + n, f"{int(n):,}", "$" + n, n + "%", "0x" + n, n + "th", "v" + n])

    def scatter():
        lo, hi = rng.choice(BLOCKS)
        return "".join(chr(rng.randrange(lo, hi)) for _ in range(rng.randint(1, 12)))

    def anychar():
        while True:
            c = chr(rng.randrange(0x20, 0x30000))
            if unicodedata.category(c) not in ("Cs", "Cn"):
                return c

    def piece():
        return rng.choice([word, word, word, number, scatter, lambda: rng.choice(SPACES) * rng.randint(1, 6),
                           lambda: rng.choice("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~") * rng.randint(1, 5),
                           lambda: rng.choice(world)[:rng.randint(1, 20)], lambda: rng.choice(code)[:rng.randint(1, 25)]])()

    def combining():
        return "".join(rng.choice("aeinoszAEO \u05d0\u0915") + "".join(chr(rng.randrange(0x300, 0x370)) for _ in range(rng.randint(0, 3)))
                       for _ in range(rng.randint(1, 10)))

    def emoji():
        parts = ["\U0001f469", "\U0001f468", "\U0001f467", "\u2764\ufe0f", "\U0001f3fd", "\U0001f308", "\U0001f1eb\U0001f1f7", "\U0001f600"]
        return rng.choice(["\u200d", "", " "]).join(rng.choice(parts) for _ in range(rng.randint(1, 6)))

    def broken():
        raw = bytearray((prose() if rng.random() < .5 else rng.choice(world)).encode()[:60])
        for _ in range(rng.randint(1, 4)):
            i = rng.randrange(len(raw) + 1)
            bad = rng.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf0\x9f\x98", b"\xc3",
                              bytes([rng.randrange(128, 256)])])
            raw[i:i] = bad
        return bytes(raw)

    yield from ("", " ", "  ", "\n", "\n\n", "\t", "a", "A", "0", "'", "\u00e9", "e\u0301",
                 "\u4e2d", "\U0001f600", "\0", "\ufffd", " \n ", "\n \n", "\r\n\r\n")
    for n in (2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 100, 255, 400):
        for s in (" ", "\n", "\t", "\r\n", " \n", "\u3000", "a", "=", "1", "\u4e2d", "\u2581", "\U0001f600", "\u0301"):
            yield s * n
            yield "x" + s * n + "y"
    for c in range(256):
        yield bytes([c])
        yield b"a" + bytes([c]) + b"b"
        yield chr(c) + " " + chr(c) * 2
    for s in SPECIAL:
        yield s
        yield "a" + s + "b"
        yield " " + s + " " + s
        yield s[1:] + s[:-1]
    yield "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    yield "<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n"
    yield from world
    yield from code
    for a in SUFFIX:
        yield from ("I" + a, "word" + a + "word", "7" + a, " " + a, a + " x")
    for _ in range(2600):
        yield prose()
    for _ in range(900):
        yield " ".join(word() for _ in range(rng.randint(1, 12)))
    for _ in range(700):
        yield rng.choice(["", " "]).join(number() for _ in range(rng.randint(1, 6)))
    for _ in range(900):
        i = rng.randrange(len(code))
        indent = rng.choice(["", "    ", "\t\t"])
        yield indent + rng.choice(["\n", "\n    ", "\n\t", " "]).join(code[i:i + rng.randint(1, 3)])[:rng.randint(10, 160)]
    for _ in range(900):
        w = rng.choice(world)
        i = rng.randrange(len(w))
        yield w[i:i + rng.randint(2, 50)]
    for _ in range(500):
        yield scatter()
    for _ in range(500):
        yield "".join(anychar() for _ in range(rng.randint(1, 10)))
    for _ in range(300):
        yield combining()
    for _ in range(250):
        yield emoji()
    for _ in range(1700):
        yield "".join(piece() for _ in range(rng.randint(2, 9)))
    for _ in range(300):
        yield "".join(rng.choice([rng.choice(SPECIAL), piece(), word()]) for _ in range(rng.randint(2, 6)))
    for _ in range(400):
        yield broken()
    for _ in range(12):
        yield rng.choice(paragraphs)[:3000]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--english", required=True)
    ap.add_argument("--out", required=True)
    ap.add_argument("--seed", type=int, default=20260101)
    a = ap.parse_args()
    rng = random.Random(a.seed)
    lines = [s if isinstance(s, bytes) else s.encode() for s in generate(open(a.english, encoding="utf-8").read(), rng)]
    with open(a.out, "wb") as f:
        f.write(b"GACORP1\n" + struct.pack("<I", len(lines)))
        for s in lines:
            f.write(struct.pack("<I", len(s)) + s)


def read_corpus(path):
    data = open(path, "rb").read()
    assert data[:8] == b"GACORP1\n"
    n, pos, out = struct.unpack_from("<I", data, 8)[0], 12, []
    for _ in range(n):
        k = struct.unpack_from("<I", data, pos)[0]
        out.append(data[pos + 4:pos + 4 + k])
        pos += 4 + k
    return out


if __name__ == "__main__":
    main()
