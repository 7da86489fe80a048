"""Cases on the compact form of an assignment."""

from typing import Any

from stowplan.placement.kueue import encoding
from stowplan.placement.kueue.assignment import Assignment

Json = dict[str, Any]


def check(case: Json) -> None:
    """Run the case's op."""
    match case["op"]:
        case "both-ways":
            assert encoding.encode_in_one_slice(_assignment(case)) == case["compact"]
            assert encoding.decode(case["compact"]) == _assignment(case)
        case "decode":
            assert encoding.decode(case["compact"]) == _assignment(case)
        case "encode-by-prefix":
            assert encoding.encode_by_prefix(_assignment(case)) == case["compact"]
            assert encoding.decode(case["compact"]) == _assignment(case)
        case "prefix-keys":
            keys = encoding.prefix_keys(_hosts(case))
            expect = case["expect"]
            if "every_key" in expect:
                assert keys == [expect["every_key"]] * expect["hosts"]
            else:
                assert keys == expect["keys"]
        case "slice-count":
            assert _domain_counts(encoding.encode_by_prefix(_on_hosts(case))) == _stated(case)
        case "choose":
            compact = encoding.encode(_on_hosts(case), runs=case["prefix_encoding"])
            assert _domain_counts(compact) == _stated(case)
        case other:
            raise AssertionError(f"unknown op {other!r}")


def _assignment(case: Json) -> Assignment:
    return encoding.decode_listed(case["assignment"])


def _on_hosts(case: Json) -> Assignment:
    """Return one domain for each host, of one pod where the case counts none."""
    hosts = _hosts(case)
    counts = case.get("counts", [1] * len(hosts))
    domains = tuple(((host,), count) for host, count in zip(hosts, counts, strict=True))
    return Assignment(tuple(case["levels"]), domains)


def _hosts(case: Json) -> list[str]:
    """Return the hosts that are named, or that the pattern makes: node k of count."""
    if "hosts" in case:
        return list(case["hosts"])
    pattern = case["pattern"]
    formats, count = pattern["formats"], pattern["count"]
    match pattern["kind"]:
        case "alternate":
            return [formats[k % len(formats)].format(node=k) for k in range(count)]
        case "halves":
            return [formats[k * len(formats) // count].format(node=k) for k in range(count)]
        case other:
            raise AssertionError(f"unknown pattern {other!r}")


def _domain_counts(compact: Json) -> list[int]:
    return [part["domainCount"] for part in compact["slices"]]


def _stated(case: Json) -> list[int]:
    counts: list[int] = case["expect"]["domain_counts"]
    return counts
