"""Two certificate authorities: one that everybody trusts, and a stranger's."""

import pytest

from tests.pki import CA, Authority, make_pair


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The CA that everybody trusts."""
    return Authority(make_pair(tmp_path_factory.mktemp("authority"), "stowplan-ca", CA))


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """A CA that nobody trusts."""
    return Authority(make_pair(tmp_path_factory.mktemp("stranger"), "stranger-ca", CA))
