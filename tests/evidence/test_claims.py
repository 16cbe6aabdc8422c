"""Claims: printed roundings never accuse what is true, and what cannot be is found."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from neoserve.errors import AskError
from neoserve.evidence.claims import check_claims, parse_csv, parse_toml
from neoserve.evidence.claims.figures import Interval, printed, share
from neoserve.schema.claims import (
    Ceiling,
    ClaimedComparison,
    ClaimedPoint,
    ClaimFacts,
    Claims,
)


def verdicts(point, facts=None, **more):
    """what -> verdict document, of one point alone."""
    claims = Claims(points=(ClaimedPoint(name="row", **point),), **more)
    found = check_claims(claims, {"row": facts} if facts else None).verdicts
    return {v.what: v for v in found}


def words(point, facts=None):
    return {what: v.verdict for what, v in verdicts(point, facts).items()}


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0.7451", "0.74505", "0.74515"),
        ("0.50", "0.495", "0.505"),
        ("0.5", "0.45", "0.55"),
        ("$1.94", "1.935", "1.945"),
        ("1.94x", "1.935", "1.945"),
        ("48.5%", "0.4845", "0.4855"),
        ("-2.0%", "-0.0205", "-0.0195"),
        ("1,342,077", "1342076.5", "1342077.5"),
        (1342077, "1342076.5", "1342077.5"),
        (120, "119.5", "120.5"),  # three digits are not taken for rounding
        (3500, "3450", "3550"),
        (1200000, "1150000", "1250000"),
        ("1.2k", "1150", "1250"),
        ("5e9", "4.5e9", "5.5e9"),
        ("~2x", "1", "3"),
        (".5", "0.45", "0.55"),
    ],
)
def test_a_printed_figure_is_all_that_rounds_to_it(text, low, high):
    assert printed(text, "x") == Interval(Fraction(low), Fraction(high))


@pytest.mark.parametrize("text", ["", "fast", "1.2.3", "$", "1 2", "0x10", "nan", "1/3", "-"])
def test_what_is_no_figure_is_refused(text):
    with pytest.raises(AskError, match="expected a figure as it is printed"):
        printed(text, "x")


@pytest.mark.parametrize("text", ["1e30", "9" * 400, 10**400, "1e-30"])
def test_absurd_figures_are_refused(text):
    with pytest.raises(AskError, match="is no figure of a table"):
        printed(text, "x")


@settings(deadline=None)
@given(st.text(alphabet="0123456789.,eE+-$%x~kMB _", max_size=12))
def test_any_text_is_a_figure_or_refused(text):
    try:
        found = printed(text, "x")
    except AskError:
        return
    assert found.low <= found.high


def test_a_share_says_whether_it_is_percent():
    assert share("27.5%", "x") == share("0.275", "x")
    with pytest.raises(AskError, match=r'write "27\.5%"'):
        share("27.5", "x")


# A table as somebody who measured would print it: true values, each rounded on its own.
_RATE = st.floats(0.05, 5000)
_DIGITS = st.integers(1, 5)
SLOTS = dict.fromkeys("ab", ClaimFacts(slots=8, core="neoverse-v2"))


def rounded(value: float, digits: int) -> str:
    """`value` with so many significant digits, never in exponents."""
    text = f"{value:.{digits - 1}e}"
    exponent = int(text.split("e")[1])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


@st.composite
def true_tables(draw):
    """(printed row, true values) of one server, and of a second one."""
    prompt, output = draw(st.integers(1, 8000)), draw(st.integers(1, 2000))
    rows, truths = [], []
    for name in ("a", "b"):
        price, rps = draw(st.floats(0.05, 120)), draw(_RATE)
        kind = draw(st.sampled_from(("output", "input", "total")))
        tokens = {"output": output, "input": prompt, "total": prompt + output}[kind]
        cost = price * 1e6 / (3600 * rps * tokens)
        volume = draw(st.integers(10**6, 10**12))
        ipc, operations = draw(st.floats(0.2, 5.5)), draw(st.floats(0.8, 1.4))
        retiring = ipc * operations / 8
        assume(retiring < 1)
        rest = 1 - retiring
        cut = sorted(draw(st.lists(st.floats(0, 1), min_size=2, max_size=2)))
        shares = [retiring, rest * cut[0], rest * (cut[1] - cut[0]), rest * (1 - cut[1])]
        rows.append(
            {
                "name": name,
                "usd_per_hour": rounded(price, draw(_DIGITS)),
                "output_tokens_per_s": rounded(rps * output, draw(_DIGITS)),
                "usd_per_mtok": rounded(cost, draw(_DIGITS)),
                "tokens_per_usd": rounded(1e6 / cost, draw(_DIGITS)),
                "usd_per_month": rounded(cost * volume / 1e6, draw(_DIGITS)),
                "tokens_per_month": volume,
                "request_rate_rps": repr(rps * draw(st.floats(1.0, 3.0))),
                "prompt_tokens": prompt,
                "output_tokens": output,
                "ipc": rounded(ipc, draw(_DIGITS)),
                **{
                    key: f"{100 * value:.{draw(st.integers(0, 3))}f}%"
                    for key, value in zip(
                        ("retiring", "bad_speculation", "frontend_bound", "backend_bound"),
                        shares,
                        strict=True,
                    )
                },
            }
            | ({"tokens": kind} if draw(st.booleans()) else {})
        )
        truths.append((rps * output, cost))
    (rate_a, cost_a), (rate_b, cost_b) = truths
    comparison = {
        "of": "a", "over": "b", "ratio": rounded(rate_a / rate_b, draw(_DIGITS)) + "x",
        "saved_share": f"{100 * (1 - cost_a / cost_b):.{draw(st.integers(0, 3))}f}%",
        "saved_usd_per_month": f"{(cost_b - cost_a) * 5000:.{draw(st.integers(0, 2))}f}",
        "tokens_per_month": 5 * 10**9,
    }  # fmt: skip
    assume(all(float(row[key]) > 0 for row in rows for key in
               ("usd_per_hour", "output_tokens_per_s", "usd_per_mtok", "tokens_per_usd",
                "usd_per_month", "ipc")))  # fmt: skip
    return Claims.parse({"points": rows, "comparisons": [comparison]}, "table")


@settings(deadline=None)
@given(true_tables())
def test_a_true_table_is_never_called_wrong(claims):
    report = check_claims(claims, SLOTS)
    wrong = [v for v in report.verdicts if v.verdict == "WRONG"]
    assert wrong == []
    # both rows: cost, tokens a dollar, month, capacity, sum, identity; and what is compared
    assert len(report.verdicts) == 2 * 6 + 3
    assert report.num_holds + report.num_unproven == len(report.verdicts)


@settings(deadline=None)
@given(true_tables(), st.sampled_from(("usd_per_mtok", "tokens_per_usd", "usd_per_month", "ratio",
                                       "retiring")), st.booleans())  # fmt: skip
def test_a_perturbed_figure_is_found(claims, what, up):
    """Moved by a factor of 4, which one printed digit on either side does not explain, away from
    the other kinds of tokens where the row does not say which it means."""
    factor = 4 if up else 0.25
    row, comparison = claims.points[0], claims.comparisons[0]
    row = row.replace(prompt_tokens=row.output_tokens, tokens="output",
                      request_rate_rps=None)  # fmt: skip
    rate, price = (float(str(v)) for v in (row.output_tokens_per_s, row.usd_per_hour))
    cost = price * 1e6 / 3600 / rate
    row = row.replace(usd_per_mtok=repr(cost), tokens_per_usd=repr(1e6 / cost))
    if what == "ratio":
        other = float(str(claims.points[1].output_tokens_per_s))
        comparison = comparison.replace(ratio=repr(rate / other * factor))
    elif what == "retiring":
        assume(up)
        row = row.replace(ipc="0.50", retiring="50.0%")
    elif what == "usd_per_month":
        month = cost * float(str(row.tokens_per_month)) / 1e6
        row = row.replace(usd_per_month=repr(month * factor))
    else:
        row = row.replace(**{what: repr(float(str(getattr(row, what))) * factor)})
    claims = claims.replace(points=(row, claims.points[1]), comparisons=(comparison,))
    found = {v.what: v.verdict for v in check_claims(claims, SLOTS).verdicts if v.subject != "b"}
    assert found["retiring_ipc" if what == "retiring" else what] == "WRONG"


PRICED = {"usd_per_hour": "0.6800", "output_tokens_per_s": "106.40",
          "prompt_tokens": 512, "output_tokens": 128}  # fmt: skip


@pytest.mark.parametrize(
    ("cost", "tokens", "word", "says"),
    [
        ("1.7753", None, "HOLDS", "fits output tokens; the table does not say which"),
        ("0.4438", None, "HOLDS", "fits input tokens"),
        ("0.3551", None, "HOLDS", "fits total tokens"),
        ("1.7753", "total", "WRONG", "it would be of output tokens"),
        ("1.7904", None, "WRONG", "it would take $0.6858/h, or 105.5 tokens/s"),
    ],
)
def test_which_tokens_a_cost_divides_by(cost, tokens, word, says):
    found = verdicts(PRICED | {"usd_per_mtok": cost, "tokens": tokens})["usd_per_mtok"]
    assert found.verdict == word
    assert found.arithmetic.count("; ") == 2  # all three are written out
    assert says in found.reason


def test_a_cost_of_tokens_that_nobody_counted_is_unproven():
    silent = {k: v for k, v in PRICED.items() if not k.endswith("_tokens")}
    found = verdicts(silent | {"usd_per_mtok": "0.36"})["usd_per_mtok"]
    assert found.verdict == "UNPROVEN"
    assert "rate of input and total tokens is not printed" in found.reason
    assert words(silent | {"usd_per_mtok": "1.7753"})["usd_per_mtok"] == "HOLDS"
    assert words({"usd_per_mtok": "1"})["usd_per_mtok"] == "UNPROVEN"


def test_a_cost_without_a_price_is_not_laid_on_the_rates():
    row = {"output_tokens_per_s": "100.0", "input_tokens_per_s": "200.0"}
    for claim in ({"usd_per_mtok": "1.00"}, {"tokens_per_usd": "1000000"}):
        [found] = verdicts(row | claim).values()
        assert (found.verdict, found.reason) == (
            "UNPROVEN", "No price is printed: give usd_per_hour."
        )  # fmt: skip


def test_totals_and_outputs_give_inputs():
    row = {"usd_per_hour": "3.600", "output_tokens_per_s": "100.0", "total_tokens_per_s": "500.0"}
    assert words(row | {"usd_per_mtok": "2.50"})["usd_per_mtok"] == "HOLDS"  # 400 input tokens/s
    assert words(row | {"usd_per_mtok": "3.00"})["usd_per_mtok"] == "WRONG"


def compared(of, over, **claim):
    rows = (ClaimedPoint(name="a", **of), ClaimedPoint(name="b", **over))
    claims = Claims(points=rows, comparisons=(ClaimedComparison(of="a", over="b", **claim),))
    return check_claims(claims).verdicts[-1]


@pytest.mark.parametrize(
    ("offered", "word", "says"),
    [
        ((2, 1), "UNPROVEN", "that of the offered loads, 2 ÷ 1 = 2,"),
        ((4, 4), "HOLDS", "It is the quotient."),
        ((2, 4), "HOLDS", "at least this"),
        ((4, 1), "UNPROVEN", "its capacity may be higher"),
    ],
)
def test_a_ratio_of_loads_is_no_speed_up(offered, word, says):
    """9 tenths of the offered requests, or fewer: who set the throughput, load or machine?"""
    of = {"output_tokens_per_s": "237.5", "output_tokens": 128, "request_rate_rps": offered[0]}
    over = {"output_tokens_per_s": "122.4", "output_tokens": 128, "request_rate_rps": offered[1]}
    found = compared(of, over, ratio="1.94x")
    assert (found.verdict, says in found.reason) == (word, True), found
    assert compared(of, over, ratio="2.94x").verdict == "WRONG"
    honest = {"is_capacity": False}  # the rows say that they are loads
    assert compared(of | honest, over | honest, ratio="1.94x").verdict == "HOLDS"


def test_costs_of_unlike_tokens_are_not_compared():
    """$1 a million output tokens is not half of $2 a million input tokens."""
    row = {"usd_per_hour": "3.600", "prompt_tokens": 100, "output_tokens": 200}
    of = row | {"output_tokens_per_s": "1000", "usd_per_mtok": "1.000"}
    over = row | {"output_tokens_per_s": "1000", "usd_per_mtok": "2.000"}
    for claim in ({"saved_share": "50%"}, {"ratio": "0.50", "quantity": "usd_per_mtok"}):
        found = compared(of, over, **claim)
        assert (found.verdict, found.reason) == (
            "UNPROVEN", "The costs are of unlike tokens: output and input."
        )  # fmt: skip
        alike = over | {"output_tokens_per_s": "500.0"}
        assert compared(of, alike, **claim).verdict == "HOLDS"


def test_served_against_offered():
    row = {"output_tokens": 100, "request_rate_rps": 2}
    at = {rps: words(row | {"served_rps": rps})["capacity"] for rps in ("1.81", "1.80", "1.78")}
    assert at == {"1.81": "UNPROVEN", "1.80": "UNPROVEN", "1.78": "HOLDS"}


@pytest.mark.parametrize(("name", "count"), [("p99", 60), ("p99", 367), ("p99", 368), ("p95", 71),
                                             ("p95", 72), ("p50", 5), ("p50", 6)])  # fmt: skip
def test_percentiles_of_few_requests(name, count):
    """A distribution-free upper bound exists when all values below it are unlikely enough."""
    p = int(name[1:]) / 100
    exists = binom.cdf(count - 1, count, p) >= 0.975  # of the largest of them
    found = verdicts({"percentiles": (name,), "num_requests": count})["percentile"]
    assert (found.verdict == "HOLDS") == exists
    if not exists:
        needed = next(n for n in range(count, 1000) if binom.pmf(n, n, p) <= 0.025)
        assert f"that takes {needed}." in found.reason
    assert words({"percentiles": (name,)})["percentile"] == "UNPROVEN"


def test_p99_of_sixty_is_read_off_the_exact_law():
    found = verdicts({"percentiles": ("p99",), "num_requests": 60})["percentile"]
    assert "0.99^60 = 0.55" in found.arithmetic
    assert "that takes 368. They bound p94." in found.reason


CEILING = Ceiling(weights_bytes=3e9, step_bytes=3e9, prompt_token_s=2e-3 / 4, output_token_s=1e-3,
                  bandwidth_bytes_per_s=600e9, most_bandwidth_bytes_per_s=600e9)  # fmt: skip
FACTS = ClaimFacts(ceiling=CEILING, memory_bytes=32 * 2**30)
LENGTHS = {"prompt_tokens": 400, "output_tokens": 100}


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"output_tokens_per_s": "1001"}, "WRONG"),  # 1 ms of products a token
        ({"output_tokens_per_s": "999.9"}, "HOLDS"),
        ({"output_tokens_per_s": "334"} | LENGTHS, "UNPROVEN"),  # 1 ms + 4 x 0.5 ms = 3 ms
        ({"output_tokens_per_s": "334", "prefix_hit_share": "0"} | LENGTHS, "WRONG"),
        ({"output_tokens_per_s": "334", "prefix_hit_share": "90%"} | LENGTHS, "HOLDS"),
        ({"output_tokens_per_s": "1001", "prefix_hit_share": "90%"} | LENGTHS, "WRONG"),
        ({"output_tokens_per_s": "333"} | LENGTHS, "HOLDS"),
        ({"output_tokens_per_s": "184.2"}, "HOLDS"),  # a fifth of what the products allow
        ({"output_tokens_per_s": "184.2", "concurrency": 1}, "HOLDS"),
        ({"output_tokens_per_s": "184.2", "concurrency": 8}, "HOLDS"),
        ({"output_tokens_per_s": "205", "concurrency": 1}, "WRONG"),
        ({"output_tokens_per_s": "205", "concurrency": 1, "num_speculative_tokens": 1}, "HOLDS"),
        ({"output_tokens_per_s": "150"}, "HOLDS"),
    ],
)
def test_throughput_under_the_roofline(row, word):
    assert words(row, FACTS)["roofline"] == word


def test_what_one_request_alone_decodes_at():
    """600 GB/s / 3 GB = 200 tokens/s, far below the 10,000 that products would allow."""
    facts = ClaimFacts(ceiling=CEILING.replace(output_token_s=1e-4))
    for rate, word in (("184.2", "UNPROVEN"), ("150", "HOLDS"), ("210", "HOLDS")):
        assert words({"output_tokens_per_s": rate}, facts)["roofline"] == word
    assert words({"output_tokens_per_s": "184.2", "concurrency": 8}, facts)["roofline"] == "HOLDS"
    cached = ClaimFacts(ceiling=CEILING.replace(fits_cache=True))
    assert words({"output_tokens_per_s": "205", "concurrency": 1}, cached)["roofline"] == "HOLDS"


def test_memory():
    fits, too_large = ({"kv_cache": f"{n}GiB"} for n in (28, 40))
    assert words(fits, FACTS)["memory"] == "HOLDS"
    assert words(too_large, FACTS)["memory"] == "WRONG"
    assert words({"memory": "2GiB"}, FACTS)["memory"] == "WRONG"  # the weights alone
    assert words({}, FACTS) == {}


def test_weights_that_are_not_known_are_not_nought():
    """24 GiB hold a cache of 20 GiB, but whatever model lies beside it has a size, too."""
    row = {"memory": "24GiB", "kv_cache": "20GiB"}
    found = verdicts(row)["memory"]
    assert found.verdict == "UNPROVEN"
    assert found.arithmetic == "20.0 GiB KV cache against 24.0 GiB of memory"
    assert words(row | {"kv_cache": "25GiB"}) == {"memory": "WRONG"}


@pytest.mark.parametrize(
    ("shares", "word"),
    [(("50%", "5%", "20%", "25%"), "HOLDS"), (("50%", "5%", "20%", "22.0%"), "HOLDS"),
     (("50.0%", "5.0%", "20.0%", "21.5%"), "WRONG"), (("0.90", "0.10", "0.10", "0"), "WRONG")],
)  # fmt: skip
def test_shares_add_up(shares, word):
    names = ("retiring", "bad_speculation", "frontend_bound", "backend_bound")
    assert words(dict(zip(names, shares, strict=True))) == {"top_down_sum": word}


@pytest.mark.parametrize(
    ("retiring", "ipc", "slots", "word"),
    [("27.5%", "1.42", 8, "HOLDS"), ("51.8%", "1.49", 8, "WRONG"), ("2.0%", "1.49", 8, "WRONG"),
     ("25%", "1.49", 6, "HOLDS"), ("25%", "1.49", None, "UNPROVEN")],
)  # fmt: skip
def test_retiring_goes_with_ipc(retiring, ipc, slots, word):
    facts = ClaimFacts(slots=slots, core="neoverse-v2")
    assert words({"retiring": retiring, "ipc": ipc}, facts) == {"retiring_ipc": word}


def test_price_lists():
    facts = ClaimFacts(usd_per_hour=0.63808, price_basis="published")
    assert words({"usd_per_hour": "0.638"}, facts) == {"usd_per_hour": "HOLDS"}
    found = verdicts({"usd_per_hour": "0.63712", "output_tokens_per_s": "237.5178"}, facts)
    assert found["usd_per_hour"].verdict == "UNPROVEN"
    assert "cost $0.7462." in found["usd_per_hour"].reason  # 0.63808 / 3600 / 237.5178 x 1e6


def test_csv_says_the_same_as_toml():
    rows = [
        {"name": "a", "usd_per_hour": "0.638", "output_tokens_per_s": "237.5",
         "prompt_tokens": "512", "output_tokens": "128",
         "usd_per_mtok": "$0.746", "over": "b", "ratio": "1.94x",
         "num_requests": "60", "percentiles": "p95 p99", "is_capacity": "no"},
        {"name": "b", "output_tokens_per_s": "122.4", "num_speculative_tokens": "0"},
    ]  # fmt: skip
    out = io.StringIO()
    writer = csv.DictWriter(out, list(dict.fromkeys(k for row in rows for k in row)))
    writer.writeheader()
    writer.writerows(rows)
    toml = """
[[points]]
name = "a"
usd_per_hour = 0.638
output_tokens_per_s = 237.5
prompt_tokens = 512
output_tokens = 128
usd_per_mtok = "$0.746"
num_requests = 60
percentiles = ["p95", "p99"]
is_capacity = false
[[points]]
name = "b"
output_tokens_per_s = 122.4
[[comparisons]]
of = "a"
over = "b"
ratio = "1.94x"
"""
    one, other = (check_claims(c) for c in (parse_csv(out.getvalue()), parse_toml(toml)))
    assert one.verdicts == other.verdicts
    assert [v.verdict for v in one.verdicts] == ["HOLDS", "UNPROVEN", "UNPROVEN", "HOLDS"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing required field `points`"),
        ("points = []", "has no points"),
        ("points = 3", "Expected `array`"),
        ("[[points]]\nname = 'a'\nspeed = 3", "unknown field `speed`"),
        ("[[points]]\nname = 'a'\n[[points]]\nname = 'a'", "two points named 'a'"),
        ("[[points]]\nname = 'a'\n[[comparisons]]\nof = 'a'\nover = 'c'", "compares 'c', which is"),
        ("[[points]\n", "not valid TOML"),
        ("[[points]]\nname = 'a'\nusd_per_hour = -1.0\nusd_per_mtok = 2\n"
         "output_tokens_per_s = 3", "expected a figure above 0"),
        ("[[points]]\nname = 'a'\npercentiles = ['max']\nnum_requests = 9", "one such as p99"),
        ("[[points]]\nname = 'a'\n[[comparisons]]\nof = 'a'\nover = 'a'\nratio = 1\n"
         "quantity = 'speed'", "is no figure of a row"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_sentence(text, says):
    with pytest.raises(AskError, match=says):
        check_claims(parse_toml(text, "table.toml"))
