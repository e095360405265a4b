import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.events.webhooks.addresses import ParsedUrl, check_resolved, parse_url, refusal

PUBLIC = ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
LOOPBACK = ["127.0.0.1", "127.255.255.254", "::1"]
NEVER = [
    "0.0.0.0",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.31.255.255",
    "192.0.0.8",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "203.0.113.7",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::ffff:127.0.0.1",
    "::ffff:93.184.216.34",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::5db8:d822",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fe80::1%lo",
    "fec0::1",
    "ff02::1",
    "not an address",
]


@pytest.mark.parametrize("address", PUBLIC)
@pytest.mark.parametrize("livemode", [False, True])
def test_a_public_address_is_sent_to_over_https_alone(address: str, livemode: bool) -> None:
    assert refusal(address, tls=True, livemode=livemode) is None
    assert refusal(address, tls=False, livemode=livemode) is not None


@pytest.mark.parametrize("address", LOOPBACK)
@pytest.mark.parametrize("tls", [False, True])
def test_this_machine_is_sent_to_in_test_mode_alone(address: str, tls: bool) -> None:
    assert refusal(address, tls=tls, livemode=False) is None
    assert refusal(address, tls=tls, livemode=True) is not None


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("livemode", [False, True])
def test_no_other_address_is_ever_sent_to(address: str, livemode: bool) -> None:
    assert refusal(address, tls=True, livemode=livemode) is not None


@pytest.mark.parametrize(
    ("url", "target", "host_header"),
    [
        ("https://example.com", ParsedUrl("example.com", 443, True, "/"), "example.com"),
        (
            "HTTPS://Example.COM:8443/a/b?c=d%20e",
            ParsedUrl("example.com", 8443, True, "/a/b?c=d%20e"),
            "example.com:8443",
        ),
        ("http://127.0.0.1:4242/hook", ParsedUrl("127.0.0.1", 4242, False, "/hook"), "127.0.0.1:4242"),
        ("http://[::1]:80/", ParsedUrl("::1", 80, False, "/"), "[::1]"),
        ("http://localhost/x", ParsedUrl("localhost", 80, False, "/x"), "localhost"),
        (
            "https://[2606:4700:4700::1111]/",
            ParsedUrl("2606:4700:4700::1111", 443, True, "/"),
            "[2606:4700:4700::1111]",
        ),
        (
            "https://xn--bcher-kva.example/",
            ParsedUrl("xn--bcher-kva.example", 443, True, "/"),
            "xn--bcher-kva.example",
        ),
    ],
)
def test_a_url_that_may_be_registered(url: str, target: ParsedUrl, host_header: str) -> None:
    assert parse_url(url, livemode=False) == target
    assert target.host_header == host_header


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://",
        "https:///path",
        "ftp://example.com/",
        "file:///etc/passwd",
        "example.com/hook",
        "//example.com",
        "https://user@example.com/",
        "https://user:word@example.com/",
        "https://example.com/#part",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:http/",
        "https://exa mple.com/",
        "https://example.com/\n",
        "https://example.com\\@127.0.0.1/",
        "https://bücher.example/",
        "https://exam_ple..com/",
        "https://-example.com/",
        "https://example.com/" + "x" * 2048,
        "https://[::1",
        "https://[fe80::1%25lo]/",
        "https://[v1.x]/",
        "http://93.184.216.34/",
        "http://10.0.0.1/",
        "https://192.168.1.1/",
        "https://169.254.169.254/latest/meta-data",
        # The same machine in clothes: none of these may pass for a name.
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.1/",
        "http://127.0.0.1./",
        "http://0/",
        "http://1.2.3.4.5/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:7f00:1::]/",
    ],
)
@pytest.mark.parametrize("livemode", [False, True])
def test_a_url_that_may_not_be_registered(url: str, livemode: bool) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_url(url, livemode=livemode)
    assert (refused.value.code, refused.value.param) == ("invalid_value", "url")


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:4242/", "http://localhost/", "https://127.0.0.1/", "https://[::1]/"]
)
def test_live_mode_sends_neither_in_clear_nor_to_this_machine(url: str) -> None:
    parse_url(url, livemode=False)
    with pytest.raises(InvalidRequest):
        parse_url(url, livemode=True)


def test_a_name_is_refused_when_one_of_its_addresses_is() -> None:
    target = parse_url("https://hooks.example/", livemode=True)
    check_resolved(["1.1.1.1", "2606:4700:4700::1111"], target, livemode=True)
    with pytest.raises(InvalidRequest):
        check_resolved(["1.1.1.1", "10.0.0.1"], target, livemode=True)


def test_an_https_name_without_an_address_yet_is_taken_and_an_http_one_is_not() -> None:
    check_resolved([], parse_url("https://hooks.example/", livemode=False), livemode=False)
    with pytest.raises(InvalidRequest):
        check_resolved([], parse_url("http://hooks.example/", livemode=False), livemode=False)


def test_http_goes_to_a_name_of_this_machine() -> None:
    target = parse_url("http://hooks.test/", livemode=False)
    check_resolved(["127.0.0.1", "::1"], target, livemode=False)
    with pytest.raises(InvalidRequest):
        check_resolved(["127.0.0.1", "1.1.1.1"], target, livemode=False)
