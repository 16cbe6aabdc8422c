"""The drawing of a trial, read back as XML."""

import xml.etree.ElementTree as ElementTree

import pytest

from evidence.sample import trial
from neoserve.errors import AskError, Error
from neoserve.faces.bench_plot import svg, write
from neoserve.measure.figures import Observed
from neoserve.schema.engine import EngineConfig
from neoserve.schema.trial import RequestRow
from neoserve.schema.workload import Slo

SVG = "{http://www.w3.org/2000/svg}"
BAD = "#c53030"


def row(due_s, ttft_s=0.2, **more):
    fields = {"sent_s": due_s, "first_token_s": due_s + ttft_s, "last_token_s": due_s + ttft_s + 1,
              "output_tokens": 11}  # fmt: skip
    return RequestRow(due_s=due_s, **(fields | more))


ROWS = [
    row(0.0, phase="warmup"), *(row(1.0 + i, 0.1 * (i + 1)) for i in range(10)),
    RequestRow(due_s=12.0, sent_s=12.0, status="http"), row(13.0, phase="drain"),
    RequestRow(due_s=20.0, status="unsent"),
]  # fmt: skip


def drawn(rows, slo="", **changes):
    found = trial(slo=Slo.parse_text(slo), **changes)
    return ElementTree.fromstring(svg(Observed(found, list(rows), ())))


def panels(root):
    found = root.findall(f"{SVG}g")
    assert len(found) == 3
    return found


def limits(panel):
    return [line for line in panel.iter(f"{SVG}line") if line.get("stroke-dasharray")]


def counts(panel):
    return [int(t.text.split()[0]) for t in panel.iter(f"{SVG}title")]


def test_every_request_that_was_sent_has_a_mark():
    root = drawn(ROWS)
    dots = list(root.iter(f"{SVG}circle"))
    assert len(dots) == sum(r.sent_s is not None for r in ROWS) == 13
    assert [dot.get("fill") for dot in dots].count(BAD) == 1
    assert [dot.get("opacity") for dot in dots].count("0.3") == 2  # warm-up and drain
    xs = [float(dot.get("cx")) for dot in dots]
    assert xs == sorted(xs)
    assert 64 <= xs[0] < xs[-1] <= 736
    failed = next(dot for dot in dots if dot.get("fill") == BAD)
    assert float(failed.get("cy")) == min(float(dot.get("cy")) for dot in dots)  # at the top


def test_histograms_count_the_served_measured_requests():
    ttft, tpot, _ = panels(drawn(ROWS))
    assert sum(counts(ttft)) == 10
    assert counts(tpot) == [10]  # 1 s over 10 tokens, all of them
    heights = [float(bar.get("height")) for bar in ttft.iter(f"{SVG}rect")]
    assert len(heights) == len(counts(ttft))
    assert max(heights) == pytest.approx(166)  # the fullest bar is as high as the panel


def test_limits_are_drawn_where_they_are():
    ttft, tpot, timeline = panels(drawn(ROWS, "ttft:p95<2s; tpot:p95<150ms"))
    [line] = limits(ttft)
    assert float(line.get("x1")) == pytest.approx(736)  # beyond every value: the right end
    assert len(limits(tpot)) == 1
    [rule] = limits(timeline)
    assert float(rule.get("y1")) == pytest.approx(4)  # above every value: the top
    assert "limit 2.00 s" in "".join(ttft.itertext())
    middle = panels(drawn(ROWS, "ttft:p95<550ms"))
    x = float(limits(middle[0])[0].get("x1"))
    assert x == pytest.approx(64 + 672 / 2, abs=1)  # TTFT from 0.1 to 1 s
    assert limits(middle[1]) == []
    assert [limits(panel) for panel in panels(drawn(ROWS))] == [[], [], []]


def test_a_limit_that_every_request_misses_is_drawn():
    assert limits(panels(drawn(ROWS, "ttft:p95<50ms"))[0])


def test_requests_in_flight_peak_where_they_overlap():
    """Three requests of 1.2 s, a second apart and the last two at once."""
    timeline = panels(drawn([row(0.0), row(1.0), row(1.0)]))[2]
    assert "requests in flight, at most 3" in "".join(timeline.itertext())
    [line] = timeline.iter(f"{SVG}polyline")
    ys = [float(point.split(",")[1]) for point in line.get("points").split()]
    assert min(ys) == pytest.approx(4)
    assert ys[0] == ys[-1] == pytest.approx(170)  # nothing before, nothing after


@pytest.mark.parametrize("rows", [[], [RequestRow(due_s=1.0, status="unsent")]])
def test_an_empty_trial(rows):
    text = "".join(drawn(rows).itertext())
    assert "TTFT: no value" in text
    assert "TPOT: no value" in text
    assert "nothing was sent" in text


def test_equal_and_zero_latencies_are_no_trouble():
    same = RequestRow(due_s=0.0, sent_s=0.0, first_token_s=0.0, last_token_s=0.0, output_tokens=2)
    ttft, tpot, timeline = panels(drawn([same] * 3))
    assert counts(ttft) == counts(tpot) == [3]
    assert len(list(timeline.iter(f"{SVG}circle"))) == 3


def test_names_are_escaped():
    root = drawn(ROWS, engine=EngineConfig(engine='<"&'), num_ok=9, num_judged=10)
    assert root.get("aria-label") == '<"&: 9 of 10 requests served, PASS'


def test_files(tmp_path):
    observed = Observed(trial(), ROWS, ())
    path = tmp_path / "a.SVG"
    write(observed, path)
    assert ElementTree.parse(path).getroot().tag == f"{SVG}svg"
    with pytest.raises(AskError, match="expected a name that ends"):
        write(observed, tmp_path / "a.png")
    with pytest.raises(Error, match="No such file"):
        write(observed, tmp_path / "none" / "a.svg")
