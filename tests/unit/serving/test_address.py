import pytest

from stowplan.serving.address import Address


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("127.0.0.1:8888", Address("127.0.0.1", 8888), id="IPv4"),
        pytest.param("[::1]:8888", Address("::1", 8888), id="IPv6 in brackets"),
        pytest.param("localhost:0", Address("localhost", 0), id="a name, and any free port"),
    ],
)
def test_an_address_reads_as_it_is_written(text: str, want: Address) -> None:
    assert Address.parse(text) == want
    assert str(want) == text


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("8888", "must be HOST:PORT", id="only a port"),
        pytest.param(":8888", "0.0.0.0:PORT listens everywhere", id="no host"),
        pytest.param("localhost", "must be HOST:PORT", id="only a host"),
        pytest.param("localhost:", "must end in a port", id="no port after the colon"),
        pytest.param("localhost:http", "must end in a port", id="a port by name"),
        pytest.param("localhost:65536", "from 0 to 65535", id="a port too large"),
        pytest.param("localhost:-1", "must end in a port", id="a negative port"),
        pytest.param("localhost:٣", "must end in a port", id="digits of another script"),
        pytest.param("::1:8888", "brackets around an IPv6 address", id="IPv6 without brackets"),
        pytest.param("", "must be HOST:PORT", id="nothing"),
    ],
)
def test_what_is_no_address_says_what_it_must_be(text: str, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        Address.parse(text)
