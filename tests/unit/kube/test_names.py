import pytest

from modelyard.kube import names


@pytest.mark.parametrize("value", ["a", "my-name", "123-abc", "a" * 63])
def test_good_labels_pass(value: str) -> None:
    assert names.dns_label(value) == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("a.b", ("must not contain dots",)),
        ("a" * 64, ("must be no more than 63 characters",)),
        (
            "A",
            (
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
                "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
            ),
        ),
    ],
)
def test_bad_labels_are_explained_as_kubernetes_does(value: str, said: tuple[str, ...]) -> None:
    assert names.dns_label(value) == said


def test_bad_object_names_are_explained_as_kubernetes_does() -> None:
    assert names.dns_subdomain("web.example") == ()
    assert names.dns_subdomain("a\n") != ()
    assert names.dns_subdomain("Web_1") == (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
        "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    )


@pytest.mark.parametrize("key", ["app", "app.kubernetes.io/name", "a/B_c.d", "1"])
def test_good_label_keys_pass(key: str) -> None:
    assert names.label_key(key) == ()


@pytest.mark.parametrize(
    ("key", "starts"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A.b/c", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        ("a b", ["name part must consist of"]),
    ],
)
def test_bad_label_keys_are_explained(key: str, starts: list[str]) -> None:
    said = names.label_key(key)
    assert len(said) == len(starts)
    assert all(message.startswith(start) for message, start in zip(said, starts, strict=True))


@pytest.mark.parametrize(
    ("value", "good"), [("", True), ("v1.0", True), ("-a", False), ("a" * 64, False), ("ü", False)]
)
def test_label_values(value: str, good: bool) -> None:
    assert (names.label_value(value) == ()) is good


@pytest.mark.parametrize(
    ("value", "good"), [("http", True), ("8080", False), ("a--b", False), ("-a", False), ("a" * 16, False)]
)
def test_port_names(value: str, good: bool) -> None:
    assert (names.port_name(value) == ()) is good


def test_other_names() -> None:
    assert names.dns_1035_label("1a")[0].startswith("a DNS-1035 label must consist of")
    assert names.config_key("..data") == ("must not start with '..'",)
    assert names.config_key("a.b_c-D") == ()
    assert names.env_name("A=B")[0].startswith("a valid environment variable name")
    assert names.path_segment("..") == ("may not be '..'",)
    assert names.path_segment("system:node/x") == ("may not contain '/'",)
    assert names.wildcard_subdomain("*.example.com") == ()
    assert names.mask_trailing_dash("web-") == "wea"
