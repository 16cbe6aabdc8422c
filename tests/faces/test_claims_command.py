"""`neoserve verify --claims`: the public Graviton4 table, its face, its exit codes."""

from pathlib import Path

import pytest

from neoserve.catalog.hardware import find_machine
from neoserve.catalog.models import find_model
from neoserve.catalog.quantization import weight_scheme
from neoserve.predict.ceilings import ceiling_of
from neoserve.schema.quantization import quantize

ROOT = Path(__file__).parents[2]
RIGHT = ROOT / "tests" / "data" / "claims" / "right.toml"
TABLE = ROOT / "tests" / "data" / "claims" / "graviton4.toml"


def found_in(document, word):
    return {(v["subject"], v["what"]) for v in document["verdicts"] if v["verdict"] == word}


def test_the_published_graviton4_table(cli):
    said = cli("verify", "--claims", str(TABLE), "--offline", "--json")
    assert said.code == 1
    assert found_in(said.document, "WRONG") == {
        ("c6i INT8", "usd_per_mtok"),  # $0.68/h at 106.4 tokens/s is $1.7753, not $1.7904
        ("c8g W4A8", "retiring_ipc"),  # 2.78 operations an instruction
        ("cost card", "retiring_ipc"),  # 3.08
        ("g5 FP16 over c6i INT8", "saved_share"),  # -2.08 % is not -2.0 %
    }
    assert found_in(said.document, "UNPROVEN") == {
        ("c8g W4A8", "usd_per_hour"),  # listed at $0.63808
        ("c8g BF16", "usd_per_hour"),
        ("c8g W4A8", "capacity"),  # 93 % of what was offered
        ("c8g BF16", "capacity"),
        ("c8g W4A8 over c8g BF16", "ratio"),  # 1.94x is that of 2 and 1 requests/s
        ("c8g W4A8 over c8g BF16", "saved_share"),
        ("c8g W4A8 over c8g BF16", "saved_usd_per_month"),
        ("g5 FP16", "roofline"),  # 184 of 194 tokens/s: one request alone
    }
    by = {(v["subject"], v["what"]): v for v in said.document["verdicts"]}
    assert "it would take $0.6858/h, or 105.5 tokens/s" in by["c6i INT8", "usd_per_mtok"]["reason"]
    assert "194.4 tokens/s" in by["g5 FP16", "roofline"]["arithmetic"]
    ratio = by["c8g W4A8 over c8g BF16", "ratio"]
    assert "the offered loads, 2 ÷ 1 = 2," in ratio["reason"]
    assert said.document["num_wrong"] == 4
    assert said.document["file"].startswith("sha256:")
    assert "notes" not in said.document or not said.document["notes"]


def test_public_measurements_are_not_accused(cli):
    """GPU and CPU, one request and hundreds, throughput, cost, speed-up."""
    said = cli("verify", "--claims", str(RIGHT), "--offline", "--json")
    assert (said.code, said.document["num_wrong"], said.document["num_unproven"]) == (0, 0, 0)
    assert [v["what"] for v in said.document["verdicts"]].count("roofline") == 9
    assert said.document["notes"] == []


def test_small_weights_may_come_from_a_cache():
    """135 M weights in 4 bits, 384 MB of last-level cache on 96 cores of Turin."""
    model = find_model("HuggingFaceTB/SmolLM2-135M-Instruct", online=False)
    small = quantize(model, weight_scheme("w4a16"))
    assert ceiling_of(small, find_machine("epyc-9r45").hardware).fits_cache
    assert not ceiling_of(model, find_machine("graviton4").hardware).fits_cache


def test_it_is_readable(cli):
    said = cli("verify", "--claims", str(TABLE), "--offline")
    assert said.code == 1
    assert all(len(line) <= 100 for line in said.out.splitlines())
    assert "WRONG     c6i INT8: $1.7904/1M\n" in said.out
    assert said.out.splitlines()[-1].startswith("34 claims: 22 hold, 4 wrong, 8 unproven")


def test_the_example(cli):
    said = cli("verify", "--claims", str(ROOT / "examples" / "claims.toml"), "--offline", "--json")
    assert said.code == 1
    assert said.document["num_holds"] >= 3
    assert said.document["num_wrong"] >= 1
    assert said.document["num_unproven"] >= 1


@pytest.mark.parametrize(
    ("scheme", "step_gb", "alone_at_90", "alone_at_537"),
    [("", 3.087, 29, 174), ("w8a8", 1.777, 50, 302), ("w4a8", 1.204, 74, 446)],
)
def test_ceilings_equal_the_published_roofline(scheme, step_gb, alone_at_90, alone_at_537):
    """Qwen2.5-1.5B on 16 of Graviton4's 96 cores: 1.310 G linear weights, 0.233 G in a head that
    stays in bf16; 90 GB/s is the fair share of 537.6."""
    model = find_model("Qwen/Qwen2.5-1.5B-Instruct", online=False)
    if scheme:
        model = quantize(model, weight_scheme(scheme))
    machine, socket = find_machine("c8g.4xlarge"), find_machine("graviton4").hardware
    found = ceiling_of(model, machine.hardware, 1, socket)
    assert found.step_bytes / 1e9 == pytest.approx(step_gb, abs=0.001)
    alone = found.bandwidth_bytes_per_s / found.step_bytes
    most = found.most_bandwidth_bytes_per_s / found.step_bytes
    assert (alone, most) == (pytest.approx(alone_at_90, abs=1), pytest.approx(alone_at_537, abs=1))


def test_products_of_a_request():
    """512 prompt and 128 output tokens are 1341 + 395 GFLOP; 5.73 TFLOP/s in bf16."""
    model = find_model("Qwen/Qwen2.5-1.5B-Instruct", online=False)
    found = ceiling_of(model, find_machine("c8g.4xlarge").hardware)
    request_s = 512 * found.prompt_token_s + 128 * found.output_token_s
    assert request_s == pytest.approx((1341e9 + 395e9) / 5.734e12, rel=0.002)


def test_experts_are_read_as_few_as_a_token_reaches():
    """Mixtral: 46.7 G weights, 12.9 G of them for a token; the embedding is not read whole."""
    model = find_model("mistralai/Mixtral-8x7B-v0.1", online=False)
    found = ceiling_of(model, find_machine("H100-SXM").hardware, 2)
    assert found.weights_bytes == pytest.approx(2 * 46.7e9, rel=0.002)
    assert found.step_bytes == pytest.approx(2 * (12.88e9 - 0.131e9), rel=0.003)


def test_exit_codes(cli, refused, tmp_path):
    table = tmp_path / "table.toml"
    row = '[[points]]\nname = "a"\nusd_per_hour = 3.600\noutput_tokens_per_s = 1000.0\n'
    lengths = "prompt_tokens = 10\noutput_tokens = 10\n"
    for cost, code in (("1.000", 0), ("2.000", 3)):
        table.write_text(f"{row}usd_per_mtok = {cost}\n")
        assert cli("verify", "--claims", str(table)).code == code
    table.write_text(f"{row}{lengths}usd_per_mtok = 2.000\n")
    assert cli("verify", "--claims", str(table)).code == 1
    table.write_text(f"{row}usd_per_mtok = cheap\n")
    refused("verify", "--claims", str(table))
    assert "none.toml: No such file" in refused("verify", "--claims", str(tmp_path / "none.toml"))
    assert ".toml or .csv" in refused("verify", "--claims", __file__)
    assert "leave run folder" in refused("verify", str(tmp_path), "--claims", str(table))
    assert "nothing to verify" in refused("verify")


def test_names_that_are_not_known_are_said_not_guessed(cli, tmp_path):
    table = tmp_path / "table.toml"
    table.write_text(
        '[[points]]\nname = "a"\nhardware = "abacus-9000"\nusd_per_hour = 3.600\n'
        "output_tokens_per_s = 1000.0\nusd_per_mtok = 1.000\n"
        '[[points]]\nname = "b"\nhardware = "L4"\nmodel = "no-such-model"\n'
    )
    said = cli("verify", "--claims", str(table), "--offline", "--json")
    assert said.code == 0
    assert len(said.document["notes"]) == 2
    assert "abacus-9000" in said.document["notes"][0]
    assert "no-such-model" in said.document["notes"][1]
