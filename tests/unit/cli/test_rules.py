import pytest

from stowplan.cli.rules import CLUSTER_RULES, LIVE_RULES, RULES, Rule
from stowplan.cli.settings import KEYS, flag_of

ALL = (*CLUSTER_RULES, *(rule for rule in LIVE_RULES if rule not in RULES))
BY_NAME = pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)


@BY_NAME
def test_a_rule_accepts_and_refuses_its_own_examples(rule: Rule) -> None:
    assert list(rule.check(rule.accepts, flag_of)) == []
    assert list(rule.check(rule.refuses, flag_of)) != []


@BY_NAME
def test_what_a_rule_accepts_breaks_no_other_rule(rule: Rule) -> None:
    for other in RULES:
        assert list(other.check(rule.accepts, flag_of)) == []


@BY_NAME
def test_a_rule_speaks_as_the_author_of_the_setting_does(rule: Rule) -> None:
    for violation in rule.check(rule.refuses, lambda key: f"the author's {key}"):
        assert violation.path.startswith("the author's ")
        assert violation.problem.startswith("must ")
        assert violation.remedy


def test_names_are_told_apart_and_keys_exist() -> None:
    assert len({rule.name for rule in ALL}) == len(ALL)
    assert {key for rule in ALL for key in rule.keys} <= set(KEYS)
