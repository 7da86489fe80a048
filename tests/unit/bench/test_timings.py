import pytest

from bench.timings import Timings, quantile, timed_round


@pytest.mark.parametrize(
    ("share", "want"),
    [
        pytest.param(0.5, 50, id="the median"),
        pytest.param(0.99, 99, id="one in a hundred is slower"),
        pytest.param(1.0, 100, id="the slowest"),
        pytest.param(0.0, 1, id="the fastest"),
    ],
)
def test_a_quantile_is_a_value_that_was_measured(share: float, want: int) -> None:
    assert quantile(range(100, 0, -1), share) == want


def test_one_value_is_every_quantile() -> None:
    assert [quantile([7], share) for share in (0.0, 0.5, 0.99)] == [7, 7, 7]


def test_rounds_that_other_work_disturbed_do_not_move_the_result() -> None:
    timings = Timings()
    for slower in (1, 50, 1, 90):
        timings.add_round([n * 1_000 * slower for n in range(1, 101)], 100_000 * slower)
    assert (timings.p50, timings.p99, timings.cpu_us) == (50.0, 99.0, 1.0)


def test_what_happens_in_every_round_is_seen() -> None:
    timings = Timings()
    for _ in range(4):
        timings.add_round([*[1_000] * 98, 9_000, 9_000], 0)
    assert timings.p99 == 9.0


def test_a_round_prepares_every_call_and_leaves_the_first_ones_out() -> None:
    timings, done = Timings(), list[str]()
    timed_round(timings, 5, lambda: done.append("before"), lambda: done.append("call"), warm_up=2)
    assert done == ["before", "call"] * 7
    assert timings.facts()["calls"] == 5
